"""The options of attention as operands and attributes, by the table of options (phasor._options.OPTIONS)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phasor._options import OPTIONS
from phasor.jax._forms import FORMS, Parts

_ROWS = {row.name: (FORMS[row.type], row) for row in OPTIONS}
_LEARNED = tuple(row.name for row in OPTIONS if row.has_gradient)


def pack(options: Mapping[str, Any]) -> Parts:
    """Operands and attributes from the keywords of the public functions."""
    operands: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _ROWS:
            raise TypeError(f"{name}: not an option")
        form, row = _ROWS[name]
        if value is None and row.default is None:
            continue
        more_operands, more_attributes = form(name, value, row.shape)
        operands.update(more_operands)
        attributes.update(more_attributes)
    _check(operands, attributes)
    return operands, attributes


def _check(operands: Mapping[str, Any], attributes: dict[str, Any]) -> None:
    """Rules between options."""
    if not attributes.get("dropout"):
        attributes.pop("dropout", None)
    elif "seed" not in operands:
        raise ValueError(
            f"seed: None beside dropout {attributes['dropout']}, expected a whole number or a key of jax.random: "
            "results depend on it alone"
        )
    pairings = [attributes.get(f"{name}_pairing") for name in ("q_rotary", "k_rotary")]
    if None not in pairings and pairings[0] != pairings[1]:
        raise ValueError(f"k_rotary: pairing {pairings[1]}, expected {pairings[0]} as q_rotary has")


def is_learned(operand: str, dtype: Any) -> bool:
    """Whether there is a gradient of an operand: of an option with one, unless it is a mask of bool."""
    option = operand.removesuffix("_cos").removesuffix("_sin")
    return option in _LEARNED and dtype == "float32"
