"""jax.nn.dot_product_attention's signature and layout, on phasor's kernels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from phasor import _phasor
from phasor._errors import with_function_name
from phasor._numbers import whole
from phasor.jax._call import ATTENTION, Settings, call, check_inputs
from phasor.jax._check import check
from phasor.jax._forms import as_array
from phasor.jax._options import pack


@with_function_name
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: None = None,
    return_residual: bool = False,
) -> Any:
    """As jax.nn.dot_product_attention, in its layout, which is not copied.

    query: [B, T, N, H] or [T, N, H]; key, value: [B, S, K, H] or [S, K, H]; N is a multiple of K.
    bias, mask: of four dimensions, or three beside arrays of three, that broadcast to [B, N, T, S]; mask is bool.
    is_causal: query i sees the keys j <= i, also where there are more keys than queries.
    local_window_size: (left, right): query i sees the keys i - left .. i + right; one number is both.
    return_residual: also the log-sum-exp [B, T, N], without a gradient.

    It differs from JAX's in two cases: the output of a query that sees no key is 0, with log-sum-exp -infinity, where JAX
    averages all values; and a float64 query is refused.
    """
    if implementation is not None:
        raise ValueError(f"implementation: {implementation!r}, expected None: phasor's")
    query, key, value = (as_array(name, x) for name, x in (("query", query), ("key", key), ("value", value)))
    inputs = {"query": query, "key": key, "value": value}
    if query.ndim == 3:
        inputs = {name: x[None] if x.ndim == 3 else x for name, x in inputs.items()}
    q, k, v = check_inputs(inputs).values()
    _check_shapes(q, k, v)
    options: dict[str, Any] = {
        "scale": scale,
        "causal": is_causal,
        "query_offsets": 0,
        "window": _window(local_window_size),
        "key_lengths": key_value_seq_lengths,
        "mask": _mask(bias, mask),
    }
    operands, attributes = pack(options)
    check(_phasor.check_attention, inputs, options, tokens_first=True)
    settings = Settings(ATTENTION, tuple(sorted(attributes.items())), True, return_residual)
    results = call(settings, {"q": q, "k": k, "v": v, **operands})
    out, lse = results["out"], results.get("lse")
    if query_seq_lengths is not None:
        seen = jnp.arange(q.shape[1]) < as_array("query_seq_lengths", query_seq_lengths)[:, None]
        out = jnp.where(seen[:, :, None, None], out, 0)
        lse = None if lse is None else jnp.where(seen[:, None], lse, -jnp.inf)
    out = out.reshape(*query.shape[:-1], value.shape[-1])
    if lse is None:
        return out
    return out, jax.lax.stop_gradient(lse.transpose(0, 2, 1).astype(k.dtype)).reshape(query.shape[:-1])


def _check_shapes(query: jax.Array, key: jax.Array, value: jax.Array) -> None:
    batch, _, heads, channels = query.shape
    if (key.shape[0], key.shape[3]) != (batch, channels):
        raise ValueError(f"key: shape {list(key.shape)}, expected [{batch}, S, K, {channels}] as query has B and H")
    if key.shape[2] == 0 or heads % key.shape[2] != 0:
        raise ValueError(f"key: {key.shape[2]} heads, expected a number that divides the {heads} of query")
    if value.shape[:3] != key.shape[:3]:
        raise ValueError(f"value: shape {list(value.shape)}, expected [{', '.join(map(str, key.shape[:3]))}, H] as key has")


def _window(sizes: Any) -> tuple[int, int] | None:
    """JAX counts the keys beside the query's own, phasor that one too."""
    if sizes is None:
        return None
    left, right = sizes if isinstance(sizes, (tuple, list)) else (sizes, sizes)
    return whole(left, "local_window_size") + 1, whole(right, "local_window_size") + 1


def _mask(bias: Any, mask: Any) -> Any:
    """Both as one."""
    if mask is not None:
        mask = as_array("mask", mask)
        if mask.dtype != jnp.bool_:
            raise TypeError(f"mask: {mask.dtype}, expected bool; what is added to scores is the bias")
    if bias is None:
        return mask
    bias = as_array("bias", bias)
    if bias.dtype == jnp.bool_:
        raise TypeError("bias: bool, expected numbers; what hides keys is the mask")
    return bias if mask is None else jnp.where(mask, bias, jnp.asarray(-jnp.inf, bias.dtype))
