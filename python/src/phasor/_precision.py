"""In which type products multiply."""

from __future__ import annotations

from phasor import _phasor
from phasor._errors import with_function_name


def precision() -> str:
    """The precision of calls that do not choose one: "storage" at first."""
    return _phasor.precision()


@with_function_name
def set_precision(name: str) -> None:
    """Sets the precision of calls that do not choose one: of those of torch and transformers too.

    "storage" multiplies bf16 arrays in bf16 where the CPU has instructions for it, "float" does not, and "bf16" rounds
    float arrays too. Sums are float in each.
    """
    if not isinstance(name, str):
        raise TypeError(f'name: {name!r}, expected "storage", "float" or "bf16"')
    _phasor.set_precision(name)
