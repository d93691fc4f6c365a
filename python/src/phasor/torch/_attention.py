"""Attention as a differentiable function of torch tensors."""

from __future__ import annotations

from typing import Any

import torch

from phasor import _phasor
from phasor._errors import with_argument_names
from phasor._rotary import RotaryTable
from phasor.torch import _plain
from phasor.torch._devices import warn_of_float64
from phasor.torch._inputs import autocast, check_tensors, empty_float32, empty_like, empty_output, with_channels
from phasor.torch._learned import LearnedGradients, fake_gradients, only_wanted
from phasor.torch._library import (
    Recorded,
    define,
    direct,
    first_only,
    records_gradient,
)
from phasor.torch._options import FLOATING, LEARNED, SCHEMA, Options, Saved, pack, with_contiguous_rows

Tensors = tuple[torch.Tensor, ...]


def _forward_cpu(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, with_lse: bool, with_weights: bool, *options: Any
) -> Tensors:
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    lowered = Options(*options).lowered(q.shape, keys)
    out = empty_output(q, v)
    lse = empty_float32((batch, heads, queries) if with_lse else 0)
    weights = empty_float32((batch, heads, queries, keys) if with_weights else 0)
    _phasor.attention_forward(
        with_contiguous_rows(q),
        with_contiguous_rows(k),
        with_contiguous_rows(v),
        out,
        lse if with_lse else None,
        weights if with_weights else None,
        **lowered,
    )
    return out, lse, weights


def _forward_fake(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, with_lse: bool, with_weights: bool, *_: Any
) -> Tensors:
    batch, heads, queries, _channels = q.shape
    out = empty_output(q, v)
    lse = q.new_empty((batch, heads, queries) if with_lse else (0,), dtype=torch.float32)
    shape = (batch, heads, queries, k.shape[2]) if with_weights else (0,)
    return out, lse, q.new_empty(shape, dtype=torch.float32)


def _backward_cpu(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    grad_out: torch.Tensor,
    grad_lse: torch.Tensor | None,
    wanted: list[bool],
    *options: Any,
) -> Tensors:
    packed = Options(*options)
    lowered = packed.lowered(q.shape, k.shape[2])
    gradients = [empty_like(q), empty_like(k), empty_like(v)]
    learned = LearnedGradients(packed, lowered, wanted)
    _phasor.attention_backward(
        with_contiguous_rows(q),
        with_contiguous_rows(k),
        with_contiguous_rows(v),
        out,
        lse,
        with_contiguous_rows(grad_out),
        with_contiguous_rows(grad_lse),
        *gradients,
        **learned.arguments,
        **lowered,
    )
    return (*gradients, *learned.finish())


def _backward_fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    grad_out: torch.Tensor,
    grad_lse: torch.Tensor | None,
    wanted: list[bool],
    *options: Any,
) -> Tensors:
    return (empty_like(q), empty_like(k), empty_like(v), *fake_gradients(q, wanted, options))


class _Attention(Recorded):
    """q, k, v and the learned options are arguments, since they get gradients; all options come as one more."""

    name = "attention"

    @staticmethod
    def forward(
        ctx: Any,
        options: tuple[Any, ...],
        with_weights: bool,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *_: Any,
    ) -> Tensors:
        out, lse, weights = _forward_now(q, k, v, True, with_weights, *options)
        ctx.saved = Saved(ctx, (q, k, v, out, lse), options)
        ctx.mark_non_differentiable(weights)
        ctx.set_materialize_grads(False)
        return out, lse, weights

    @staticmethod
    def backward(ctx: Any, grad_out: Any, grad_lse: Any, _: Any) -> Any:
        tensors, options = ctx.saved.restore(ctx.saved_tensors)
        if grad_out is None:
            grad_out = torch.zeros_like(tensors[3])
        wanted = ctx.needs_input_grad[5:]
        gradients = _backward_autograd(*tensors, grad_out, grad_lse, wanted, *options)
        return (None, None, *gradients[:3], *only_wanted(gradients[3:], wanted))


def _forward_autograd(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, with_lse: bool, with_weights: bool, *options: Any
) -> Any:
    learned = options[: len(LEARNED)]
    if records_gradient("attention", q, k, v, *options[:FLOATING]):
        return _Attention.call(options, with_weights, q, k, v, *learned)
    return _forward_now(q, k, v, with_lse, with_weights, *options)


def _backward_autograd(*arguments: Any) -> Any:
    gradients = _backward_now(*arguments)
    return first_only("attention", gradients, arguments) if torch.is_grad_enabled() else gradients


_forward = define(
    "attention_forward",
    f"(Tensor q, Tensor k, Tensor v, bool with_lse, bool with_weights, {SCHEMA})"
    " -> (Tensor out, Tensor lse, Tensor weights)",
    cpu=_forward_cpu,
    fake=_forward_fake,
    autograd=_forward_autograd,
)
_backward = define(
    "attention_backward",
    "(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor grad_out, Tensor? grad_lse, bool[] wanted, "
    f"{SCHEMA}) -> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_mask, Tensor grad_key_bias, "
    "Tensor grad_relative_bias, Tensor grad_alibi_slopes, Tensor grad_sinks)",
    cpu=_backward_cpu,
    fake=_backward_fake,
    autograd=_backward_autograd,
)
_forward_now, _backward_now = direct(_forward, _forward_cpu), direct(_backward, _backward_cpu)


@with_argument_names
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    query_offset: Any = None,
    key_lengths: Any = None,
    cumulative_lengths: Any = None,
    mask: torch.Tensor | None = None,
    key_bias: torch.Tensor | None = None,
    relative_bias: Any = None,
    alibi_slopes: torch.Tensor | None = None,
    q_rotary: RotaryTable | None = None,
    k_rotary: RotaryTable | None = None,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> Any:
    """phasor.attention with gradients: out = softmax(scores) v, in memory that grows with S, never with S x S.

        score(i, j) = cap(scale * rotate(q_i) . rotate(k_j)) + key_bias(j) + relative_bias(j - p_i) + mask(i, j)

    q: [B, H, T, D]; k: [B, G, S, D]; v: [B, G, S, E], float32, bfloat16 or float16, on the CPU. The options are those
        of phasor.attention. Gradients go to q, k, v, and to mask (a float one, summed over the dimensions it is
        broadcast in), key_bias, relative_bias, alibi_slopes and sinks where they require them; also from lse, not from
        weights.
    seed: of dropout; None draws one from torch's generator: each call drops others, and torch.manual_seed repeats them.

    Returns out [B, H, T, E]; with return_lse or return_weights a tuple (out, lse, weights) of those asked for.

    Tensors are not copied, except: one whose last dimension is not contiguous is made so; biases of the half types
    become float32; under autocast q, k and v are cast to its type, as torch's scaled_dot_product_attention does it.
    Works under torch.compile (fullgraph), autocast and activation checkpointing. Not under vmap or in forward mode
    (torch.func.jvp), and there is no second derivative: they raise NotImplementedError.
    """
    wide = check_tensors(q=q, k=k, v=v)
    if torch.is_autocast_enabled("cpu"):
        q, k, v = autocast(q, k, v)
        wide = False
    options = pack(
        (q.shape[2], k.shape[2]),
        scale=scale,
        causal=causal,
        window=window,
        query_offset=query_offset,
        key_lengths=key_lengths,
        cumulative_lengths=cumulative_lengths,
        mask=mask,
        key_bias=key_bias,
        relative_bias=relative_bias,
        alibi_slopes=alibi_slopes,
        q_rotary=q_rotary,
        k_rotary=k_rotary,
        softcap=softcap,
        sinks=sinks,
        dropout=dropout,
        seed=seed,
        wide=wide,
    )
    if wide or q.shape[1] == k.shape[1] == 0:  # the kernels have at least one head
        if wide:
            warn_of_float64()
        out, lse, weights = _plain.attention(q, k, v, options)
    else:
        forward = _forward if torch.compiler.is_compiling() else _forward_autograd  # a shorter way to the same
        out, lse, weights = forward(*with_channels(q, k, v), return_lse, return_weights, *options)
        if v.shape[3] == 0:
            out = out[..., :0]
    if return_lse:
        return (out, lse, weights) if return_weights else (out, lse)
    return (out, weights) if return_weights else out
