"""Attention for JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phasor import _phasor
from phasor._errors import with_function_name
from phasor._options import AttentionOptions, with_options
from phasor.jax._call import ATTENTION, Operands, Settings, call, check_inputs
from phasor.jax._check import check
from phasor.jax._options import pack

if TYPE_CHECKING:
    from typing_extensions import Unpack


@with_options
@with_function_name
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    return_lse: bool = False,
    return_weights: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """phasor.attention on JAX's arrays: out = softmax(scores) v, in memory that grows with S, never with S x S.

    q: [B, H, T, D]; k: [B, G, S, D]; v: [B, G, S, E]; float32, bfloat16 or float16, on the CPU. Under jit, grad, vmap and
        shard_map. There are gradients of q, k, v, a float32 mask, query_scale, key_bias, relative_bias, alibi_slopes,
        q_rotary, k_rotary and sinks.

    Options; arrays are right-aligned with their shapes, so leading dimensions may be left out. Arrays may be traced,
    numbers may not. seed is a whole number or a key of jax.random:
    {options}

    Returns out [B, H, T, E], and after it what is asked for, float32: lse [B, H, T], and the weights [B, H, T, S], which have
    no gradient.
    """
    operands, attributes = pack(options)
    inputs = check_inputs({"q": q, "k": k, "v": v})
    check(_phasor.check_attention, inputs, options)
    settings = Settings(ATTENTION, tuple(sorted(attributes.items())), False, return_lse, return_weights)
    return results(call(settings, {**inputs, **operands}))


def results(found: Operands) -> Any:
    """One alone, or a tuple."""
    return next(iter(found.values())) if len(found) == 1 else tuple(found.values())
