"""The options of attention as arguments of torch's operators, which take tensors, numbers and texts.

The table of options (phasor._options.OPTIONS) says which there are, and a form for each type (_forms.py) of which
arguments an option consists. So a new option of a known type needs nothing here.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from phasor._options import OPTIONS, OptionRow
from phasor.torch._causal_bias import corner_of, visible_keys
from phasor.torch._forms import FORMS, Rotation
from phasor.torch._inputs import empty_float32

if TYPE_CHECKING:
    from phasor._options import AttentionOptions

Tensors = tuple[torch.Tensor, ...]


class Argument(NamedTuple):
    """One argument of an operator."""

    name: str
    schema: str  # its type in torch's schema language
    default: Any
    order: int  # 0 a tensor with a gradient, 1 another tensor of floats, 2 one of whole numbers, 3 no tensor


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
LEARNED = [argument.name for argument in ARGUMENTS if argument.order == 0]  # the first ones, of which there are gradients
FLOATING = sum(argument.order <= 1 for argument in ARGUMENTS)  # also those by which a derivative could be asked in vain
TENSORS = sum(argument.order <= 2 for argument in ARGUMENTS)
_names = tuple(argument.name for argument in ARGUMENTS)
Options: Any = namedtuple("Options", _names)  # type: ignore[misc]  # what operators take after the rest
_DEFAULTS = {argument.name: argument.default for argument in ARGUMENTS}
_ROWS = {row.name: (FORMS[row.type].read, [argument.name for argument in _arguments(row)], row) for row in OPTIONS}
# Of which option an argument of LEARNED is the table, or which part of it: cos or sin.
_PARTS = {name: (name, None) if name in _ROWS else (name[:-4], name[-3:]) for name in LEARNED}
# For `lowered`: name, where its arguments are, and the form's function. An option of several arguments is given if one of
# the first two is not None.
_SINGLE, _JOINED = [], []
for _row in OPTIONS:
    _at = [Options._fields.index(argument.name) for argument in _arguments(_row)]
    if len(_at) == 1:
        _SINGLE.append((_row.name, _at[0], FORMS[_row.type].lower))
    else:
        _second = _at[1] if ARGUMENTS[_at[1]].default is None else _at[0]
        _JOINED.append((_row.name, _at[0], _second, itemgetter(*_at), FORMS[_row.type].lower))


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
    for name, one, other, among, lower in _JOINED:
        if options[one] is not None or options[other] is not None:
            value = lower(*among(options))
            if value is not None:
                result[name] = value
    return result


class Saved:
    """Options in the context of an autograd function: tensors where torch wants to have them, the rest beside them."""

    def __init__(self, ctx: Any, tensors: Tensors, options: tuple[Any, ...]) -> None:
        self._first, self._numbers = len(tensors), options[TENSORS:]
        given = [(i, option) for i, option in enumerate(options[:TENSORS]) if option is not None]
        self._given = [i for i, _ in given]
        ctx.save_for_backward(*tensors, *[option for _, option in given])

    def restore(self, saved: Tensors) -> tuple[Tensors, tuple[Any, ...]]:
        """The tensors and the options, from ctx.saved_tensors."""
        given: list[torch.Tensor | None] = [None] * TENSORS
        for i, tensor in zip(self._given, saved[self._first :]):
            given[i] = tensor
        return saved[: self._first], (*given, *self._numbers)


# ------------------------------------------------------------------------------------------------- gradients of options


def gradient_memory(wanted: Sequence[bool], options: Sequence[Any]) -> list[torch.Tensor | None]:
    """One for each name of LEARNED, of those that are wanted."""
    given = zip(options, wanted)
    return [empty_float32(tuple(option.shape)) if is_wanted else None for option, is_wanted in given]


def option_gradients(memory: Sequence[torch.Tensor | None]) -> dict[str, Any]:
    """gradient_memory by option, as the C++ functions take it."""
    result: dict[str, Any] = {}
    for name, tensor in zip(LEARNED, memory):
        if tensor is not None:
            option, part = _PARTS[name]
            if part is None:
                result[option] = tensor
            else:
                result[option] = result.get(option, Rotation(None, None, "half"))._replace(**{part: tensor})
    return result


def fake_gradients(like: torch.Tensor, wanted: Sequence[bool], options: Sequence[Any]) -> list[torch.Tensor]:
    """One for each name of LEARNED, empty where not wanted."""
    return [
        like.new_empty(option.shape if is_wanted else (0,), dtype=torch.float32)
        for option, is_wanted in zip(options, wanted)
    ]
