"""The options of attention as arguments of torch's operators, which take tensors, numbers and texts.

The table of options (phasor._options.OPTIONS) says which there are; a form below says, for each type of option, of
which arguments it consists. So a new option of a known type needs nothing here.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from phasor._numbers import real, whole
from phasor._options import OPTIONS, OptionRow
from phasor._rotary import RotaryTable
from phasor.torch._block_mask import Blocks, block_tensors
from phasor.torch._causal_bias import corner_of, visible_keys
from phasor.torch._inputs import check_memory, empty_float32, with_contiguous_rows

if TYPE_CHECKING:
    from phasor._options import AttentionOptions

Tensors = tuple[torch.Tensor, ...]


class Argument(NamedTuple):
    """One argument of an operator."""

    name: str
    schema: str  # its type in torch's schema language
    default: Any
    order: int  # 0 a tensor with a gradient, 1 another tensor of floats, 2 one of whole numbers, 3 no tensor


class Form(NamedTuple):
    """How options of one type are arguments of an operator."""

    arguments: tuple[tuple[str, str, Any, int], ...]  # Argument, but the name follows the option's
    read: Callable[[str, Any, bool], Any]  # (name, what was given, wide) -> the values of the arguments; one is no tuple
    lower: Callable[..., Any]  # the values -> what the C++ function takes; None is not given


class Rotation(NamedTuple):
    """A RotaryTable for the C++ functions, made in less time."""

    cos: torch.Tensor
    sin: torch.Tensor
    pairing: Any


# ----------------------------------------------------------------------------------------------------- types of options


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
        lambda cos, sin, pairing: None
        if cos is None
        else Rotation(with_contiguous_rows(cos), with_contiguous_rows(sin), pairing),
    ),
    "BlockMask": Form(
        (("_blocks", "Tensor?", None, 2), ("_bits", "Tensor?", None, 2), ("_sizes", "int[]?", None, 3)),
        lambda name, mask, wide: block_tensors(name, mask),
        lambda blocks, bits, sizes: None if blocks is None else Blocks(blocks, bits, *sizes),
    ),
    "integers": Form((("", "Tensor?", None, 2),), _integers, _itself),
    "int": Form((("", "Tensor?", None, 2),), _seed, lambda seed: int(seed) % 2**64),
    "int or (left, right)": Form(
        (("_left", "SymInt?", None, 3), ("_right", "SymInt?", None, 3)),
        _window,
        lambda left, right: None if left is None and right is None else (left, right),
    ),
    "bool": Form((("", "bool", False, 3),), lambda name, flag, wide: bool(flag), _itself),
    "float": Form((("", "float", None, 3),), lambda name, number, wide: real(number, name), _itself),
}

# ----------------------------------------------------------------------------------------------- from the table of options


def _arguments(row: OptionRow) -> list[Argument]:
    found = []
    for suffix, schema, default, order in FORMS[row.type].arguments:
        if schema == "float":
            default, schema = row.default, "float?" if row.default is None else "float"
        found.append(Argument(row.name + suffix, schema, default, 0 if row.has_gradient and order == 1 else order))
    return found


# Sorted, so that tensors come first, and those with gradients before all others.
ARGUMENTS = sorted((argument for row in OPTIONS for argument in _arguments(row)), key=lambda argument: argument.order)
SCHEMA = ", ".join(f"{argument.schema} {argument.name}" for argument in ARGUMENTS)
LEARNED_ARGUMENTS = tuple(argument.name for argument in ARGUMENTS if argument.order == 0)
LEARNED = len(LEARNED_ARGUMENTS)
TENSORS = sum(argument.order <= 2 for argument in ARGUMENTS)
_names = tuple(argument.name for argument in ARGUMENTS)
Options: Any = namedtuple("Options", _names)  # type: ignore[misc]  # what operators take after the rest
_DEFAULTS = {argument.name: argument.default for argument in ARGUMENTS}
_ROWS = {row.name: (FORMS[row.type].read, [argument.name for argument in _arguments(row)], row) for row in OPTIONS}
# By option, where its learned arguments are.
_LEARNED_ROWS = [
    (row.name, [LEARNED_ARGUMENTS.index(x.name) for x in _arguments(row) if x.order == 0])
    for row in OPTIONS
    if row.has_gradient
]
# For `lowered`: name, where its arguments are, and the form's function.
_SINGLE, _JOINED = [], []
for _row in OPTIONS:
    _at = [Options._fields.index(argument.name) for argument in _arguments(_row)]
    if len(_at) == 1:
        _SINGLE.append((_row.name, _at[0], FORMS[_row.type].lower))
    else:
        _JOINED.append((_row.name, itemgetter(*_at), FORMS[_row.type].lower))


def pack(tokens: tuple[int, int], options: AttentionOptions, wide: bool = False) -> Any:
    """Options, from the keywords of the public functions. tokens: T and S; wide: for float64, which biases may then be."""
    values = dict(_DEFAULTS)
    given: Mapping[str, Any] = options
    if given.get("mask") is not None:
        given = _without_causal_bias(given, tokens)
    for name, value in given.items():
        if name not in _ROWS:
            raise TypeError(f"{name}: not an option")
        read, names, row = _ROWS[name]
        if value is None and row.default is None:
            continue
        if len(names) == 1:
            values[names[0]] = read(name, value, wide)
        else:
            values.update(zip(names, read(name, value, wide)))
    if not values["dropout"]:
        values["seed"] = None
    elif values["seed"] is None:
        values["seed"] = torch.randint(2**63 - 1, (1,), device="cpu")  # from torch's generator
    return Options(*values.values())


def _without_causal_bias(options: Mapping[str, Any], tokens: tuple[int, int]) -> Mapping[str, Any]:
    """A CausalBias among the options is causal, or a mask where its diagonal is not that of the positions."""
    corner = corner_of("mask", options["mask"], tokens)
    if corner is None:
        return options
    if corner != "upper left" and options.get("query_offsets") is None and options.get("query_starts") is None:
        return {**options, "mask": None, "causal": True}
    return {**options, "mask": visible_keys(corner, tokens)}


def lowered(options: Sequence[Any]) -> AttentionOptions:
    """As the C++ functions take them: only those that are given. Rows that are not contiguous are copied."""
    result: Any = {}
    for name, at, lower in _SINGLE:
        value = options[at]
        if value is not None and value is not False:
            result[name] = lower(value)
    for name, among, lower in _JOINED:
        value = lower(*among(options))
        if value is not None:
            result[name] = value
    return result


class Saved:
    """Options in the context of an autograd function: tensors where torch wants to have them, the rest beside them."""

    def __init__(self, ctx: Any, tensors: Tensors, options: tuple[Any, ...]) -> None:
        self._first, self._numbers = len(tensors), options[TENSORS:]
        self._given = [i for i in range(TENSORS) if options[i] is not None]
        ctx.save_for_backward(*tensors, *[options[i] for i in self._given])

    def restore(self, saved: Tensors) -> tuple[Tensors, tuple[Any, ...]]:
        """The tensors and the options, from ctx.saved_tensors."""
        given: list[torch.Tensor | None] = [None] * TENSORS
        for i, tensor in zip(self._given, saved[self._first :]):
            given[i] = tensor
        return saved[: self._first], (*given, *self._numbers)


# ------------------------------------------------------------------------------------------------- gradients of options


def gradient_memory(wanted: Sequence[bool], options: Sequence[Any]) -> tuple[list[torch.Tensor | None], dict[str, Any]]:
    """One for each learned argument, None where not wanted; and the same as C++ takes them, by the names of options."""
    memory = [
        empty_float32(tuple(option.shape)) if is_wanted else None for option, is_wanted in zip(options, wanted)
    ]
    by_option: dict[str, Any] = {}
    for name, at in _LEARNED_ROWS:
        parts = tuple(memory[i] for i in at)
        if any(part is not None for part in parts):
            by_option[name] = parts if len(parts) > 1 else parts[0]
    return memory, by_option


def fake_gradients(like: torch.Tensor, wanted: Sequence[bool], options: Sequence[Any]) -> list[torch.Tensor]:
    """One for each learned argument, empty where not wanted."""
    return [
        like.new_empty(option.shape if is_wanted else (0,), dtype=torch.float32)
        for option, is_wanted in zip(options, wanted)
    ]


def only_wanted(gradients: Sequence[torch.Tensor | None], wanted: Sequence[bool]) -> list[torch.Tensor | None]:
    """As autograd takes them: None where there is none."""
    return [gradient if is_wanted else None for gradient, is_wanted in zip(gradients, wanted)]
