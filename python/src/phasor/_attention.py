"""Attention, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

from phasor import _phasor
from phasor._arrays import Kind, check_tensors, kind_of, shape_of
from phasor._errors import with_argument_names
from phasor._gradients import OptionGradients
from phasor._options import AttentionOptions, low_level
from phasor._rotary import RotaryTable

if TYPE_CHECKING:
    from typing_extensions import Unpack

ArrayT = TypeVar("ArrayT")


class AttentionGradients(NamedTuple):
    """Gradients of a loss, each shaped as what it belongs to; None for options that were not given."""

    q: Any
    k: Any
    v: Any
    mask: Any = None
    key_bias: Any = None
    relative_bias: Any = None
    alibi_slopes: Any = None
    sinks: Any = None


@overload
def attention(
    q: ArrayT,
    k: ArrayT,
    v: ArrayT,
    *,
    return_lse: Literal[False] = ...,
    return_weights: Literal[False] = ...,
    **options: Unpack[AttentionOptions],
) -> ArrayT: ...
@overload
def attention(
    q: ArrayT,
    k: ArrayT,
    v: ArrayT,
    *,
    return_lse: bool = ...,
    return_weights: bool = ...,
    **options: Unpack[AttentionOptions],
) -> Any: ...
@with_argument_names
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    query_offset: Any = None,
    key_lengths: Any = None,
    cumulative_lengths: Any = None,
    mask: Any = None,
    key_bias: Any = None,
    relative_bias: Any = None,
    alibi_slopes: Any = None,
    q_rotary: RotaryTable | None = None,
    k_rotary: RotaryTable | None = None,
    softcap: float = 0.0,
    sinks: Any = None,
    dropout: float = 0.0,
    seed: int | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> Any:
    """Attention: out = softmax(scores) v, in memory that grows with S, never with S x S.

        score(i, j) = cap(scale * rotate(q_i) . rotate(k_j)) + key_bias(j) + relative_bias(j - p_i) + mask(i, j)

    in this order: scale, softcap, biases, masks, softmax. Query i stands at p_i = query_offset + i.

    q: [B, H, T, D]; k: [B, G, S, D]; v: [B, G, S, E]. H is a multiple of G: head h reads key head h // (H // G). All
        float32, float16 or bfloat16; arithmetic is float32. The last dimension is contiguous, outer strides are free:
        x.transpose(0, 2, 1, 3) of [B, T, H, D] memory works as it is. Nothing is copied. D is at most 512, E too.

    Where queries stand and what they see:
    causal: a query at p sees the keys j <= p.
    window: left, or (left, right): only p - left < j < p + right. None in a pair is unbounded. An int bounds the left only,
        as Hugging Face's sliding_window beside causal.
    query_offset: an int, or one for each sequence; S - T when None: the last query stands at the last key.
    key_lengths: [B] whole numbers: a sequence has only its first keys; moves no diagonal.
    cumulative_lengths: for ragged batches packed into B = 1: [n + 1] whole numbers, from 0, where each sequence begins and
        the last ends; a tuple (of queries, of keys) where they differ. Offsets, causal and window count within each.
    mask: right-aligned with [B, H, T, S], sizes 1 are broadcast. bool: True attends. float32: added to the score.

    What is added to or done with scores (arrays are float32):
    key_bias: [S], [G, S] or [B, G, S], sizes 1 are broadcast.
    relative_bias: a RelativeBias, a pair (table [H, span], first_distance), or a table [H, 2n + 1] for distances -n .. n.
    alibi_slopes: [H]: adds -slope * |distance|. A table of it is made for the call.
    q_rotary, k_rotary: RotaryTables, of one pairing, whose row i turns q_i or k_i.
    scale: 1/sqrt(D) when None.
    softcap: c > 0: scores become c tanh(score / c).
    sinks: [H]: a score for each head that takes its share of the softmax, with value 0.
    dropout: each weight is dropped with this probability, the others grow by 1 / (1 - dropout).
    seed: which weights: required with dropout, 0 .. 2^64 - 1. The same seed drops the same ones.

    Returns out [B, H, T, E], of the kind and element type of q; with return_lse also lse [B, H, T], the log of the sum of
    exp(score), and with return_weights the weights [B, H, T, S], after dropout, both float32: (out, lse, weights). A
    query that sees no key gives 0, and -infinity in lse. Results are the same bits for any number of threads.
    """
    kind = kind_of(q, "q")
    batch, heads, queries, _ = shape_of(q, "q", 4)
    keys, channels = shape_of(k, "k", 4)[2], shape_of(v, "v", 4)[3]
    options = low_level(
        (batch, heads, queries),
        keys,
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
    )
    check_tensors({"k": k, "v": v, **options})
    out = kind.empty((batch, heads, queries, channels), q)
    lse = kind.empty_float32((batch, heads, queries)) if return_lse else None
    weights = kind.empty_float32((batch, heads, queries, keys)) if return_weights else None
    _phasor.attention_forward(q, k, v, out, lse, weights, **options)
    return results(kind, out, lse, weights)


def results(kind: Kind, *arrays: Any) -> Any:
    """The arrays that were asked for: one alone, or a tuple."""
    given = tuple(kind.finish(array) for array in arrays if array is not None)
    return given[0] if len(given) == 1 else given


@with_argument_names
def attention_backward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    grad_out: Any,
    *,
    grad_lse: Any = None,
    **options: Unpack[AttentionOptions],
) -> AttentionGradients:
    """Gradients of a loss by everything that went into `attention`.

    q, k, v: as given to attention; out, lse: what it returned with return_lse=True.
    grad_out: [B, H, T, E], the gradient of the loss by out, of the type of q.
    grad_lse: [B, H, T], that by lse, if the loss depends on it.
    options: those of the forward call, all of them: attention(q, k, v, **options, return_lse=True).

    With P the weights before dropout, M the dropout's factors and dP = (grad_out . v) M, scores have the gradient
    dS = P (dP - sum_j P dP + grad_lse), and grad_v = sum over queries of P M grad_out, grad_q = scale sum_j dS k_j,
    grad_k = scale sum_i dS q_i, rotated back where rotated.

    Returns AttentionGradients: q, k, v, and those of mask (when it is float32), key_bias, relative_bias (of its table),
    alibi_slopes and sinks where given, each shaped and of the kind of what it belongs to. Nothing is copied.
    """
    kind = kind_of(q, "q")
    shape, keys = shape_of(q, "q", 4), shape_of(k, "k", 4)[2]
    shape_of(v, "v", 4)
    lowered = low_level(shape, keys, **options)
    check_tensors({"k": k, "v": v, "out": out, "lse": lse, "grad_out": grad_out, "grad_lse": grad_lse, **lowered})
    gradients = [kind.empty(x.shape, x) for x in (q, k, v)]
    others = OptionGradients(kind, lowered)
    _phasor.attention_backward(
        q, k, v, out, lse, grad_out, grad_lse, *gradients, **others.arguments(), **lowered
    )
    grad_q, grad_k, grad_v = (kind.finish(array) for array in gradients)
    return AttentionGradients(grad_q, grad_k, grad_v, **others.finish(options.get("alibi_slopes"), options.get("mask")))
