"""Attention to two sets of keys from the results for each, as a differentiable function of torch tensors."""

from __future__ import annotations

from typing import Any

import torch

from phasor import _phasor
from phasor._errors import with_function_name
from phasor.torch._inputs import check_memory, check_tensors, empty_float32, empty_like, with_contiguous_rows
from phasor.torch._library import Recorded, define, direct, first_only, records_gradient

Tensors = tuple[torch.Tensor, ...]


def _merged(out: torch.Tensor, lse: torch.Tensor, out2: torch.Tensor, lse2: torch.Tensor) -> Tensors:
    inputs: Tensors = tuple(map(with_contiguous_rows, (out, lse, out2, lse2)))
    results: Tensors = (empty_like(out), empty_float32(lse.shape))
    _phasor.merge_attention(*inputs, *results)
    return results


def _merged_fake(out: torch.Tensor, lse: torch.Tensor, out2: torch.Tensor, lse2: torch.Tensor) -> Tensors:
    return empty_like(out), lse.new_empty(lse.shape)


def _differentiated(*tensors: Any) -> Tensors:
    """Of out, lse, out2, lse2, both merged, and the gradients of these."""
    results = [empty_like(x) if x.dim() == 4 else empty_float32(x.shape) for x in tensors[:4]]
    _phasor.merge_attention_backward(*map(with_contiguous_rows, tensors), *results)
    return tuple(results)


def _differentiated_fake(*tensors: Any) -> Tensors:
    return tuple(empty_like(x) if x.dim() == 4 else x.new_empty(x.shape) for x in tensors[:4])


def _autograd(*tensors: torch.Tensor) -> Any:
    if records_gradient("merge_attention", *tensors):
        return _Merge.call(*tensors)
    return _merge_now(*tensors)


def _backward_autograd(*tensors: Any) -> Any:
    gradients = _differentiate_now(*tensors)
    return first_only("merge_attention", gradients, tensors) if torch.is_grad_enabled() else gradients


_INPUTS = "Tensor out, Tensor lse, Tensor out2, Tensor lse2"
_merge = define(
    "merge_attention",
    f"({_INPUTS}) -> (Tensor merged_out, Tensor merged_lse)",
    cpu=_merged,
    fake=_merged_fake,
    autograd=_autograd,
)
_differentiate = define(
    "merge_attention_backward",
    f"({_INPUTS}, Tensor merged_out, Tensor merged_lse, Tensor grad_out, Tensor? grad_lse) -> "
    "(Tensor result_out, Tensor result_lse, Tensor result_out2, Tensor result_lse2)",
    cpu=_differentiated,
    fake=_differentiated_fake,
    autograd=_backward_autograd,
)
_merge_now, _differentiate_now = direct(_merge, _merged), direct(_differentiate, _differentiated)


class _Merge(Recorded):
    name = "merge_attention"

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> Tensors:
        results: Tensors = _merge_now(*tensors)
        ctx.save_for_backward(*tensors, *results)
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, grad_out: Any, grad_lse: Any) -> Any:
        saved = ctx.saved_tensors
        grad_out = torch.zeros_like(saved[4]) if grad_out is None else grad_out
        return _backward_autograd(*saved, grad_out, grad_lse)


@with_function_name
def merge_attention(
    out: torch.Tensor, lse: torch.Tensor, out2: torch.Tensor, lse2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """phasor.merge_attention with gradients: attention to all keys, from the results for two sets of them.

        lse = log(e^lse + e^lse2),   out = e^(lse - new lse) out + e^(lse2 - new lse) out2

    out, out2: [B, H, T, E], float32, bfloat16 or float16; lse, lse2: [B, H, T], float32, as attention gives them with
        return_lse=True. A sink belongs to one of the two calls, not to both.

    Returns (out, lse).
    """
    wide = check_tensors(out=out, out2=out2)
    for name, x in (("lse", lse), ("lse2", lse2)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: {type(x).__name__}, expected a torch.Tensor")
        check_memory(name, x)
    if wide:
        return _plainly(out, lse, out2, lse2)
    merge = _merge if torch.compiler.is_compiling() else _autograd
    merged: tuple[torch.Tensor, torch.Tensor] = merge(out, lse, out2, lse2)
    return merged


def _plainly(
    out: torch.Tensor, lse: torch.Tensor, out2: torch.Tensor, lse2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """For float64. A query that sees no key has shares of 0."""
    blind = (lse == -torch.inf) & (lse2 == -torch.inf)
    pair = torch.stack((lse, lse2), -1).masked_fill(blind[..., None], 0.0)
    shares = torch.softmax(pair, -1).masked_fill(blind[..., None], 0.0)
    merged = shares[..., :1] * out + shares[..., 1:] * out2
    return merged, torch.logsumexp(pair, -1).masked_fill(blind, -torch.inf)
