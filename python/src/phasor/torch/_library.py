"""How an operator of phasor is registered with torch.

An operator is a schema and four functions: on the CPU, on fake tensors (shapes only: torch.compile), under autograd,
and under vmap, where all raise. Torch takes 15 to 28 us to find which of them a call with so many arguments is
for (torch.library.custom_op takes some forty); `direct` goes to the CPU's at once when nothing else is possible.
Forward-mode differentiation is refused too: the operators would drop its tangents, which is a derivative of zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.autograd import forward_ad

from phasor import _phasor

_phasor.share_openmp_threads()  # torch's, which would spin against ours
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

    autograd: what runs where gradients may be recorded; it calls what `direct` gives.
    """
    _library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides))
    _library.impl(name, cpu, "CPU")
    operator = getattr(torch.ops.phasor, name).default
    names = [argument.name for argument in operator._schema.arguments]
    torch.library.register_fake(f"phasor::{name}", _with_real_memory(fake, names), lib=_library)
    _library.impl(name, autograd, "Autograd")
    _library.impl(name, lambda *_: _refuse_vmap(name), "FuncTorchBatched")
    return operator


def _with_real_memory(fake: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    """`fake`, where no argument but the first decides that there is no memory (device meta).

    torch runs it as soon as one argument is meta, and beside a first one on the CPU the result would be memory that
    nothing has written. A check here costs nothing in calls on the CPU.
    """

    def checked(*arguments: Any) -> Any:
        if arguments[0].device.type != "meta":
            for name, argument in zip(names, arguments):
                if isinstance(argument, torch.Tensor) and argument.device.type == "meta":
                    name = name.removesuffix("_cos").removesuffix("_sin")  # of a RotaryTable
                    raise TypeError(f"{name}: on device meta, expected the CPU's memory as {names[0]} has")
        return fake(*arguments)

    return checked


def _refuse_vmap(name: str) -> NoReturn:
    raise NotImplementedError(
        f"[{name}] vmap: not supported; fold the mapped dimension into the batch dimension of the inputs"
    )


below_autograd = torch._C._AutoDispatchBelowAutograd
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_NUMBERS = frozenset((bool, int, float, str))


def direct(operator: Any, cpu: Callable[..., Any]) -> Callable[..., Any]:
    """The operator below autograd, for calls from this package: where torch would find `cpu`, that is called at once."""

    def call(*arguments: Any) -> Any:
        if _nobody_watches():
            for argument in arguments:
                if argument is None:
                    continue
                kind = type(argument)
                if kind in _PLAIN:
                    if not argument.is_cpu:
                        break
                elif kind not in _NUMBERS and isinstance(argument, torch.Tensor):
                    break
            else:
                return cpu(*arguments)
        with below_autograd():
            return operator(*arguments)

    return call


def _nobody_watches() -> bool:
    """Whether no mode, transform, tracer or profiler is to see which operators are called."""
    return not (
        torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state()
        or torch.autograd.profiler._is_profiler_enabled
    )


def records_gradient(name: str, *tensors: torch.Tensor | None) -> bool:
    """Whether autograd is to remember a call of `name` on these tensors; NotImplementedError for tangents."""
    if forward_ad._current_level >= 0:
        _refuse_tangents(name, tensors)
    if not torch.is_grad_enabled():
        return False
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            return True
    return False


def _refuse_tangents(name: str, tensors: tuple[torch.Tensor | None, ...]) -> None:
    """Inside torch.func.jvp nothing is taken: a tensor there does not tell the tangents of all nested levels."""
    active = torch._C._are_functorch_transforms_active()
    if active or any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in tensors):
        raise NotImplementedError(
            f"[{name}] forward-mode differentiation (torch.func.jvp, jacfwd, forward_ad): not supported; expected "
            "backward() or torch.autograd.grad"
        )


class Recorded(torch.autograd.Function):
    """A function that torch.func's transforms refuse by a text of our own: they ask for a `setup_context`, which takes
    torch some 50 us more for each call."""

    name = ""

    @staticmethod
    def check(name: str) -> None:
        if torch._C._are_functorch_transforms_active():
            raise NotImplementedError(
                f"[{name}] vmap, torch.func.grad: not supported; expected backward() or torch.autograd.grad"
            )

    @classmethod
    def call(cls, *inputs: Any) -> Any:
        cls.check(cls.name)
        return cls.apply(*inputs)


def first_only(name: str, gradients: tuple[torch.Tensor, ...], inputs: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    """Gradients that say so when they are themselves to be differentiated by what they were computed from."""
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if not records_gradient(name, *tensors):
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
