"""The options of attention: C++'s table of them, and what the Python functions have from it.

The table is include/phasor/attention/option_table.h. A new option is a row there and a line of AttentionOptions here.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from phasor import _phasor
from phasor._arrays import Kind, check_tensors, is_boolean
from phasor._block_mask import BlockMask
from phasor._rotary import RotaryTable

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class OptionRow(NamedTuple):
    """A row of the table."""

    name: str
    type: str
    shape: str  # empty for numbers
    default: Any
    has_gradient: bool
    doc: str


OPTIONS = tuple(OptionRow(*row) for row in _phasor.attention_options())
LEARNED = tuple(row.name for row in OPTIONS if row.has_gradient)


class AttentionOptions(TypedDict, total=False):
    """What all attention functions take: positions, masks, biases, and what becomes of scores."""

    scale: float | None
    query_scale: Any
    query_offsets: Any
    causal: bool
    window: int | tuple[int | None, int | None] | None
    key_lengths: Any
    query_starts: Any
    key_starts: Any
    mask: Any
    block_mask: BlockMask | None
    key_bias: Any
    relative_bias: Any
    alibi_slopes: Any
    q_rotary: RotaryTable | None
    k_rotary: RotaryTable | None
    softcap: float
    sinks: Any
    dropout: float
    seed: int | None
    precision: str | None


def with_options(function: FunctionT) -> FunctionT:
    """A function of **options whose signature and docstring name them: those of the table for {options}."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for row in OPTIONS:
        given = AttentionOptions.__annotations__[row.name]
        annotation = getattr(given, "__forward_arg__", given)
        parameters.append(
            inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=row.default, annotation=annotation)
        )
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    if function.__doc__:  # python -OO has none
        function.__doc__ = function.__doc__.replace("    {options}\n", _documentation())
    return function


def _documentation() -> str:
    lines = [
        textwrap.fill(
            f"{row.name} ({', '.join(filter(None, (row.type, row.shape)))}): {row.doc}.",
            width=112,
            initial_indent="    ",
            subsequent_indent="        ",
        )
        for row in OPTIONS
    ]
    return "\n".join(lines) + "\n"


def check_options(options: Mapping[str, Any]) -> None:
    """TypeError or ValueError for a torch tensor among the options that is more than its memory."""
    if options and "torch" in sys.modules:
        for name, value in options.items():
            if isinstance(value, RotaryTable):
                check_tensors({name: value.cos})
                check_tensors({name: value.sin})
            elif isinstance(value, BlockMask):
                check_tensors({name: value.blocks})
                check_tensors({name: value.bits})
            else:
                check_tensors({name: value[0] if isinstance(value, tuple) and value else value})


def gradient_memory(kind: Kind, options: Mapping[str, Any], of_tables: bool) -> dict[str, Any]:
    """Memory for the gradient of each option that is given and has one, of the option's shape. of_tables: also rotary ones."""
    memory: dict[str, Any] = {}
    for name in LEARNED:
        value = options.get(name)
        if isinstance(value, RotaryTable):
            if of_tables:
                cos, sin = (kind.empty_float32(_shape(x)) for x in (value.cos, value.sin))
                memory[name] = RotaryTable(cos, sin, value.pairing)
        elif value is not None and not is_boolean(value):
            table = value[0] if isinstance(value, tuple) and name == "relative_bias" and value else value
            memory[name] = kind.empty_float32(np.shape(table) if isinstance(table, (list, tuple)) else _shape(table))
    return memory


def _shape(array: Any) -> Any:
    """That of an array. Of what is none, C++ says what is wrong."""
    return getattr(array, "shape", (0,))
