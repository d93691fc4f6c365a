"""Rotation by position as a differentiable function of torch tensors."""

from __future__ import annotations

from typing import Any

import torch

from phasor import _phasor
from phasor._errors import with_function_name
from phasor._rotary import RotaryTable
from phasor.torch import _plain
from phasor.torch._devices import warn_of_float64
from phasor.torch._forms import Rotation, rotary_tensors
from phasor.torch._inputs import check_tensors, empty_like, with_contiguous_rows
from phasor.torch._library import Recorded, define, direct, records_gradient


def _cpu(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairing: str, transpose: bool) -> torch.Tensor:
    out = empty_like(x)
    table: Any = Rotation(cos, sin, pairing)
    _phasor.apply_rotary(with_contiguous_rows(x), table, out, transpose=transpose)
    return out


def _fake(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairing: str, transpose: bool) -> torch.Tensor:
    return empty_like(x)


class _Rotation(Recorded):
    """Linear in x: the gradient is the transposed rotation, again a function with a gradient."""

    name = "apply_rotary"

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *how: Any) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.pairing, ctx.transpose = how
        return _rotate_now(x, cos, sin, *how)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return _autograd(grad, *ctx.saved_tensors, ctx.pairing, not ctx.transpose), None, None, None, None


def _autograd(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *how: Any) -> Any:
    table = (cos, sin, *how)
    if records_gradient("apply_rotary", x, cos, sin):
        return _Rotation.call(x, *table)
    return _rotate_now(x, *table)


_rotate = define(
    "apply_rotary",
    "(Tensor x, Tensor table_cos, Tensor table_sin, str table_pairing, bool transpose) -> Tensor",
    cpu=_cpu,
    fake=_fake,
    autograd=_autograd,
)
_rotate_now = direct(_rotate, _cpu)


@with_function_name
def apply_rotary(x: torch.Tensor, table: RotaryTable, *, transpose: bool = False) -> torch.Tensor:
    """phasor.apply_rotary with a gradient: x [B, H, T, D] rotated by position, (a, b) -> (a cos - b sin, a sin + b cos).

    table: of T rows, [B, T, R/2] or [B or 1, H or 1, T, R/2]; channels from R on stay as they are. Where cos or sin
        require a gradient, plain torch computes the rotation.
    transpose: turn back.

    x is copied only where its last dimension is not contiguous. Attention can do this while it reads q and k: give it
    the table as q_rotary and k_rotary.
    """
    wide = check_tensors(x=x)
    cos, sin = rotary_tensors("table", table)
    learned = torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad)
    if wide or learned:
        if wide:
            warn_of_float64()
        return _plain.rotate(x, cos, -sin if transpose else sin, table.pairing)
    rotate = _rotate if torch.compiler.is_compiling() else _autograd
    return rotate(x, cos, sin, table.pairing, bool(transpose))  # type: ignore[no-any-return]
