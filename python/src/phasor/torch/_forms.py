"""How an option of attention becomes arguments of a torch operator, by its type in the table of options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from phasor._block_mask import BlockMask
from phasor._numbers import real, whole
from phasor._rotary import RotaryTable
from phasor.torch._block_mask import block_tensors
from phasor.torch._inputs import check_memory, with_contiguous_rows


class Form(NamedTuple):
    """How options of one type are arguments of an operator."""

    arguments: tuple[tuple[str, str, Any, int], ...]  # Argument, but the name follows the option's
    read: Callable[[str, Any, bool], Any]  # (name, what was given, wide) -> the values of the arguments; one is no tuple
    lower: Callable[..., Any]  # the values -> what the C++ function takes; None is not given


class Rotation(NamedTuple):
    """A RotaryTable for the C++ functions, made in less time; also for gradients, of which one may be None."""

    cos: torch.Tensor | None
    sin: torch.Tensor | None
    pairing: Any


def _added(name: str, tensor: Any, wide: bool, kinds: str = "float32") -> torch.Tensor:
    """What is added to scores is float32; the half types are cast. wide: beside q of float64, it may be that."""
    if isinstance(tensor, np.ndarray) and name in ("relative_bias", "alibi_slopes"):  # made by phasor
        tensor = torch.from_numpy(tensor)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: {type(tensor).__name__}, expected a torch.Tensor")
    check_memory(name, tensor)
    if tensor.dtype is torch.float32 or (wide and tensor.dtype is torch.float64):
        return tensor
    if tensor.dtype is torch.bfloat16 or tensor.dtype is torch.float16:
        return tensor.float()
    raise TypeError(f"{name}: {str(tensor.dtype).removeprefix('torch.')}, expected {kinds}")


def _mask(name: str, mask: Any, wide: bool) -> torch.Tensor:
    if isinstance(mask, torch.Tensor) and mask.dtype is torch.bool:
        check_memory(name, mask)
        return mask
    return _added(name, mask, wide, "bool or float32")


def _relative(name: str, bias: Any, wide: bool) -> tuple[torch.Tensor, int]:
    if isinstance(bias, tuple):  # a RelativeBias is one, too
        if len(bias) != 2:
            raise ValueError(f"{name}: a tuple of {len(bias)}, expected (table, first_distance)")
        return _added(name, bias[0], wide), whole(bias[1], name)
    shape = tuple(getattr(bias, "shape", ()))
    if len(shape) != 2 or shape[1] % 2 == 0:
        raise ValueError(
            f"{name}: shape {list(shape)}, expected [H, 2 n + 1] for the distances -n .. n, or a RelativeBias"
        )
    return _added(name, bias, wide), -(shape[1] // 2)


def _rotary(name: str, table: Any, _: bool) -> tuple[torch.Tensor, torch.Tensor, str]:
    return (*rotary_tensors(name, table), table.pairing)


def rotary_tensors(name: str, table: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of a table: torch's, or NumPy's memory seen by torch."""
    if not isinstance(table, RotaryTable):
        raise TypeError(f"{name}: {type(table).__name__}, expected a RotaryTable")
    cos, sin = (x if isinstance(x, torch.Tensor) else torch.from_numpy(x) for x in (table.cos, table.sin))
    check_memory(name, cos)
    check_memory(name, sin)
    return cos, sin


def _window(name: str, window: Any, _: bool) -> tuple[int | None, int | None]:
    left, right = window, None
    if isinstance(window, Sequence) and not isinstance(window, str):
        if len(window) != 2:
            raise ValueError(f"{name}: {window!r}, expected (left, right)")
        left, right = window
    return None if left is None else whole(left, name), None if right is None else whole(right, name)


def _integers(name: str, numbers: Any, _: bool) -> torch.Tensor:
    if isinstance(numbers, torch.Tensor):
        check_memory(name, numbers)
        return numbers
    if isinstance(numbers, (int, torch.SymInt)):
        return torch.full((1,), numbers, dtype=torch.int64, device="cpu")
    try:
        return torch.as_tensor(numbers, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name}: {numbers!r}, expected whole numbers") from None


def _seed(name: str, seed: Any, _: bool) -> torch.Tensor:
    """A tensor of one number, since torch.compile cannot draw a number."""
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise TypeError(f"{name}: {seed!r}, expected a whole number of 64 bits, 0 or more")
    return torch.full((1,), seed - 2**64 if seed >= 2**63 else seed, dtype=torch.int64, device="cpu")


def _text(name: str, text: Any, _: bool) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{name}: {text!r}, expected a str")
    return text


def _itself(value: Any) -> Any:
    return value


_ARRAY = Form((("", "Tensor?", None, 1),), _added, with_contiguous_rows)
FORMS = {
    "float32 array": _ARRAY,
    "bool or float32 array": _ARRAY._replace(read=_mask),
    "RelativeBias": Form(
        (("", "Tensor?", None, 1), ("_first_distance", "SymInt", 0, 3)),
        _relative,
        lambda table, first: None if table is None else (with_contiguous_rows(table), first),
    ),
    "RotaryTable": Form(
        (("_cos", "Tensor?", None, 1), ("_sin", "Tensor?", None, 1), ("_pairing", "str", "", 3)),
        _rotary,
        lambda cos, sin, pairing: None if cos is None else Rotation(cos, sin, pairing),
    ),
    "BlockMask": Form(
        (
            ("_blocks", "Tensor?", None, 2),
            ("_bits", "Tensor?", None, 2),
            ("_query_block", "SymInt", 0, 3),
            ("_key_block", "SymInt", 0, 3),
        ),
        lambda name, mask, wide: block_tensors(name, mask),
        lambda blocks, bits, *sizes: None if blocks is None else BlockMask(blocks, bits, *sizes),
    ),
    "integers": Form((("", "Tensor?", None, 2),), _integers, _itself),
    "int": Form((("", "Tensor?", None, 2),), _seed, lambda seed: int(seed) % 2**64),
    "int or (left, right)": Form(
        (("_left", "SymInt?", None, 3), ("_right", "SymInt?", None, 3)),
        _window,
        lambda left, right: None if left is None and right is None else (left, right),
    ),
    "bool": Form((("", "bool", False, 3),), lambda name, flag, wide: bool(flag), _itself),
    "str": Form((("", "str?", None, 3),), _text, _itself),
    "float": Form((("", "float", None, 3),), lambda name, number, wide: real(number, name), _itself),
}
