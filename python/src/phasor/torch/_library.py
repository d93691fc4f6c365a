"""How an operator of phasor is registered with torch.

An operator is a schema and four functions: on the CPU, on fake tensors (shapes only: torch.compile), under autograd, and
under vmap, where all raise. Calls cost a few microseconds, where torch.library.custom_op takes some forty.
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
    _library.impl(name, lambda *_: refuse_vmap(name), "FuncTorchBatched")
    return getattr(torch.ops.phasor, name).default


def refuse_vmap(name: str) -> NoReturn:
    raise NotImplementedError(
        f"[{name}] vmap: not supported; fold the mapped dimension into the batch dimension of the inputs"
    )


below_autograd = torch._C._AutoDispatchBelowAutograd


class Differentiable:
    """A function of torch.autograd made of three: `run` computes, `save` remembers inputs and outputs in a context,
    `backward` gives the gradients from it.

    It is one of two torch.autograd.Functions: that with its own `setup_context`, which torch.func asks for, takes torch
    some 50 us more for each call.
    """

    def __init__(
        self,
        name: str,
        run: Callable[..., Any],
        save: Callable[[Any, tuple[Any, ...], Any], None],
        backward: Callable[..., Any],
    ) -> None:
        def forward(ctx: Any, *inputs: Any) -> Any:
            output = run(*inputs)
            save(ctx, inputs, output)
            return output

        def refuse(*_: Any) -> Any:
            refuse_vmap(name)

        base = torch.autograd.Function
        eager = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        functional = eager | {
            "forward": staticmethod(run),
            "setup_context": staticmethod(save),
            "vmap": staticmethod(refuse),
        }
        self._eager: Any = type(name, (base,), eager)
        self._functional: Any = type(name, (base,), functional)

    def __call__(self, *inputs: Any) -> Any:
        if torch._C._are_functorch_transforms_active():
            return self._functional.apply(*inputs)
        return self._eager.apply(*inputs)


def records_gradient(*tensors: torch.Tensor | None) -> bool:
    """Whether autograd is to remember a call on these tensors."""
    if not torch.is_grad_enabled():
        return False
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            return True
    return False


def first_only(name: str, gradients: tuple[torch.Tensor, ...], inputs: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    """Gradients that say so when they are themselves to be differentiated by what they were computed from."""
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if not records_gradient(*tensors):
        return gradients
    return _first_only(name, len(gradients), *gradients, *tensors)  # type: ignore[no-any-return]


def _views(name: str, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.view_as(tensor) for tensor in tensors[:count])


def _save_name(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.name = inputs[0]


def _refuse_second(ctx: Any, *_: Any) -> Any:
    raise NotImplementedError(
        f"[{ctx.name}] second derivative: not supported; phasor gives the first derivatives of attention only"
    )


_first_only = Differentiable("first_only", _views, _save_name, _refuse_second)
