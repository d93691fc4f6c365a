"""Attention to two sets of keys, from the results for each."""

from __future__ import annotations

from typing import Any, NamedTuple

from phasor import _phasor
from phasor._arrays import check_tensors, kind_of, shape_of
from phasor._errors import with_function_name


class MergeGradients(NamedTuple):
    """Gradients of a loss by what went into merge_attention."""

    out: Any
    lse: Any
    out2: Any
    lse2: Any


@with_function_name
def merge_attention(out: Any, lse: Any, out2: Any, lse2: Any) -> tuple[Any, Any]:
    """Attention to all keys, from the results for two sets of them: long caches can be split, keys shared by sequences.

        lse = log(e^lse + e^lse2),   out = e^(lse - new lse) out + e^(lse2 - new lse) out2

    out, out2: [B, H, T, E], float32, float16 or bfloat16; lse, lse2: [B, H, T], float32, as attention gives them with
        return_lse=True. A sink belongs to one of the two calls, not to both.

    Returns (out, lse). A query that sees no key of either set gives 0, and -infinity in lse. Nothing is copied.
    """
    kind = kind_of(out, "out")
    check_tensors({"lse": lse, "out2": out2, "lse2": lse2})
    shape = shape_of(out, "out", 4)
    merged = kind.empty(shape, out), kind.empty_float32(shape[:3])
    _phasor.merge_attention(out, lse, out2, lse2, *merged)
    return kind.finish(merged[0]), kind.finish(merged[1])


@with_function_name
def merge_attention_backward(
    out: Any,
    lse: Any,
    out2: Any,
    lse2: Any,
    merged_out: Any,
    merged_lse: Any,
    grad_out: Any,
    grad_lse: Any = None,
) -> MergeGradients:
    """Gradients of a loss by what went into `merge_attention`.

    The first four: as given to merge_attention; merged_out, merged_lse: what it returned.
    grad_out, grad_lse: the gradients of the loss by these; that of lse may be None.
    """
    kind = kind_of(out, "out")
    check_tensors({"lse": lse, "out2": out2, "lse2": lse2, "merged_out": merged_out, "merged_lse": merged_lse})
    check_tensors({"grad_out": grad_out, "grad_lse": grad_lse})
    shape = shape_of(out, "out", 4)
    a, b, c, d = (kind.empty(shape, out) if i % 2 == 0 else kind.empty_float32(shape[:3]) for i in range(4))
    _phasor.merge_attention_backward(
        out, lse, out2, lse2, merged_out, merged_lse, grad_out, grad_lse, a, b, c, d
    )
    return MergeGradients(*map(kind.finish, (a, b, c, d)))
