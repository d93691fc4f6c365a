"""Attention, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

from phasor import _phasor
from phasor._arrays import Kind, check_tensors, kind_of, shape_of
from phasor._errors import with_function_name
from phasor._options import AttentionOptions, check_options, gradient_memory, with_options
from phasor._rotary import RotaryTable

if TYPE_CHECKING:
    from typing_extensions import Unpack

ArrayT = TypeVar("ArrayT")


class AttentionGradients(NamedTuple):
    """Gradients of a loss, each shaped as what it belongs to; None for options that were not given."""

    q: Any
    k: Any
    v: Any
    query_scale: Any = None
    mask: Any = None
    key_bias: Any = None
    relative_bias: Any = None
    alibi_slopes: Any = None
    q_rotary: RotaryTable | None = None
    k_rotary: RotaryTable | None = None
    sinks: Any = None


@overload
def attention(
    q: ArrayT,
    k: ArrayT,
    v: ArrayT,
    *,
    return_lse: Literal[False] = ...,
    return_softmax: Literal[False] = ...,
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
    return_softmax: bool = ...,
    return_weights: bool = ...,
    **options: Unpack[AttentionOptions],
) -> Any: ...
@with_options
@with_function_name
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    return_lse: bool = False,
    return_softmax: bool = False,
    return_weights: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """Attention: out = softmax(scores) v, in memory that grows with S, never with S x S.

        score(i, j) = cap(scale * query_scale(i) * rotate(q_i) . rotate(k_j)) + key_bias(j) + bias(j - p_i) + mask(i, j)

    in this order: scale, softcap, biases, masks, softmax. Query i is at position p_i.

    q: [B, H, T, D]; k: [B, G, S, D]; v: [B, G, S, E]. H is a multiple of G: head h reads key head h // (H // G). All
        float32, float16 or bfloat16; arithmetic is float32. The last dimension is contiguous, outer strides are free:
        x.transpose(0, 2, 1, 3) of [B, T, H, D] memory works as it is. Nothing is copied. D is at most 512, E too.

    Options; arrays are right-aligned with their shapes, so leading dimensions may be left out:
    {options}

    Returns out [B, H, T, E], of the kind and element type of q; and after it what is asked for, float32: lse [B, H, T],
    the log of the sum of exp(score); softmax [B, H, T, 2], which attention_backward needs; and the weights
    [B, H, T, S], after dropout. A query that sees no key gives 0, and -infinity in lse. Results are the same bits for
    any number of threads.
    """
    call = Call({"q": q, "k": k, "v": v}, options)
    out = call.empty_out()
    asked = call.empty_on_request(return_lse, return_softmax, return_weights)
    _phasor.attention_forward(q, k, v, out, *asked, **options)
    return results(call.kind, out, *asked)


@with_options
@with_function_name
def attention_backward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    softmax: Any,
    grad_out: Any,
    *,
    grad_lse: Any = None,
    rotary_gradients: bool = False,
    **options: Unpack[AttentionOptions],
) -> AttentionGradients:
    """Gradients of a loss by everything that went into `attention`.

    q, k, v: as given to attention; out, softmax: what it returned with return_softmax=True.
    grad_out: [B, H, T, E], the gradient of the loss by out, of the type of q.
    grad_lse: [B, H, T], that by lse, if the loss depends on it.
    rotary_gradients: whether those of q_rotary and k_rotary are computed too, which takes memory for rotated q and k.
    options: those of the forward call, all of them: attention(q, k, v, **options, return_softmax=True).

    With P the weights before dropout, M the dropout's factors and dP = (grad_out . v) M, scores have the gradient
    dS = P (dP - sum_j P dP + grad_lse), and grad_v = sum over queries of P M grad_out, grad_q = scale sum_j dS k_j,
    grad_k = scale sum_i dS q_i, rotated back where rotated.

    Returns AttentionGradients: q, k, v, and those of query_scale, mask (when it is float32), key_bias, relative_bias (of its
    table), alibi_slopes and sinks where given, each of the shape of what it belongs to; q_rotary and k_rotary are
    RotaryTables of the gradients of cos and sin. Nothing is copied.
    """
    call = Call({"q": q, "k": k, "v": v}, options)
    check_tensors({"out": out, "softmax": softmax, "grad_out": grad_out, "grad_lse": grad_lse})
    gradients, others = call.empty_gradients(options, rotary_gradients)
    _phasor.attention_backward(q, k, v, out, softmax, grad_out, grad_lse, *gradients, option_gradients=others, **options)
    return AttentionGradients(*map(call.kind.finish, gradients), **finished(call.kind, others))


class Call:
    """The arrays of a call, checked, and memory for its results. inputs: first q, k and v, or their means."""

    def __init__(self, inputs: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        (q_name, q), (k_name, k), (v_name, v) = list(inputs.items())[:3]
        self.kind = kind_of(q, q_name)
        self.rows = shape_of(q, q_name, 4)[:3]
        self.keys, self.channels = shape_of(k, k_name, 4)[2], shape_of(v, v_name, 4)[3]
        self._inputs = inputs
        check_tensors(inputs)
        check_options(options)

    def empty_out(self) -> Any:
        return self.kind.empty((*self.rows, self.channels), next(iter(self._inputs.values())))

    def empty_on_request(self, lse: bool, softmax: bool, weights: bool) -> tuple[Any, Any, Any]:
        """lse, softmax and weights, or None."""
        return empty_on_request(self.kind, self.rows, self.keys, lse, softmax, weights)

    def empty_gradients(self, options: Mapping[str, Any], of_tables: bool) -> tuple[list[Any], dict[str, Any]]:
        """Of the inputs, and of the options by name. of_tables: also of rotary ones."""
        gradients = [self.kind.empty(x.shape, x) for x in self._inputs.values()]
        return gradients, gradient_memory(self.kind, options, of_tables)


def empty_on_request(
    kind: Kind, rows: tuple[int, ...], keys: int, lse: bool, softmax: bool, weights: bool
) -> tuple[Any, Any, Any]:
    """lse [B, H, T], softmax [B, H, T, 2] and weights [B, H, T, S], or None. rows: B, H and T."""
    return (
        kind.empty_float32(rows) if lse else None,
        kind.empty_float32((*rows, 2)) if softmax else None,
        kind.empty_float32((*rows, keys)) if weights else None,
    )


def results(kind: Kind, *arrays: Any) -> Any:
    """The arrays that were asked for: one alone, or a tuple."""
    given = tuple(kind.finish(array) for array in arrays if array is not None)
    return given[0] if len(given) == 1 else given


def finished(kind: Kind, arrays: Mapping[str, Any]) -> dict[str, Any]:
    result = {}
    for name, x in arrays.items():
        if isinstance(x, RotaryTable):
            result[name] = RotaryTable(kind.finish(x.cos), kind.finish(x.sin), x.pairing)
        else:
            result[name] = kind.finish(x)
    return result
