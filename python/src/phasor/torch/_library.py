"""How an operator of phasor is registered with torch.

An operator is a schema and four functions: on the CPU, on fake tensors (shapes only: torch.compile), under autograd,
and under vmap, where all raise. Calls cost a few microseconds, where torch.library.custom_op takes some forty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

_library = torch.library.Library("phasor", "DEF")


def define(
    name: str,
    schema: str,
    *,
    cpu: Callable[..., Any],
    fake: Callable[..., Any],
    autograd: Callable[..., Any],
) -> Any:
    """The operator torch.ops.phasor.<name>, its default overload.

    autograd: what runs where gradients may be recorded; it calls the operator again inside `below_autograd()`.
    """
    _library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides))
    _library.impl(name, cpu, "CPU")
    torch.library.register_fake(f"phasor::{name}", fake, lib=_library)
    _library.impl(name, autograd, "Autograd")
    _library.impl(name, lambda *_: _refuse_vmap(name), "FuncTorchBatched")
    return getattr(torch.ops.phasor, name).default


def _refuse_vmap(name: str) -> NoReturn:
    raise NotImplementedError(
        f"[{name}] vmap: not supported; fold the mapped dimension into the batch dimension of the inputs"
    )


below_autograd = torch._C._AutoDispatchBelowAutograd


def records_gradient(*tensors: torch.Tensor | None) -> bool:
    """Whether autograd is to remember a call on these tensors."""
    if not torch.is_grad_enabled():
        return False
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            return True
    return False


class Recorded(torch.autograd.Function):
    """A function that torch.func's transforms refuse by a text of our own: they ask for a `setup_context`, which takes
    torch some 50 us more for each call."""

    name = ""

    @classmethod
    def call(cls, *inputs: Any) -> Any:
        if torch._C._are_functorch_transforms_active():
            raise NotImplementedError(
                f"[{cls.name}] vmap, torch.func.grad: not supported; expected backward() or torch.autograd.grad"
            )
        return cls.apply(*inputs)


def first_only(name: str, gradients: tuple[torch.Tensor, ...], inputs: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    """Gradients that say so when they are themselves to be differentiated by what they were computed from."""
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if not records_gradient(*tensors):
        return gradients
    return _FirstOnly.apply(name, len(gradients), *gradients, *tensors)  # type: ignore[no-any-return]


class _FirstOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.name = name
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(
            f"[{ctx.name}] second derivative: not supported; phasor gives the first derivatives of attention only"
        )
