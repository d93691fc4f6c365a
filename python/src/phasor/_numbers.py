"""Numbers among the arguments, with an error that names the argument for what is none."""

from __future__ import annotations

import operator
from typing import Any


def whole(value: Any, name: str) -> int:
    """An int, or another kind of whole number (NumPy's) as one."""
    if isinstance(value, int):
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {value!r}, expected a whole number") from None


def real(value: Any, name: str) -> float:
    """A float, or another kind of number as one: an array of no dimensions too, but no other."""
    if isinstance(value, float):
        return value
    shape = tuple(getattr(value, "shape", ()))
    if shape != ():
        raise TypeError(f"{name}: {type(value).__name__} of shape {list(shape)}, expected a number")
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{name}: {value!r}, expected a number")
