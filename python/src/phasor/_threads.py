"""How many threads a call may use."""

from __future__ import annotations

from phasor import _phasor
from phasor._errors import with_function_name
from phasor._numbers import whole


def num_threads() -> int:
    """How many threads a call may use."""
    return _phasor.num_threads()


@with_function_name
def set_num_threads(count: int) -> None:
    """Sets how many threads a call may use; 0 returns to the default (OMP_NUM_THREADS, else the number of cores).

    Results do not depend on it, to the last bit. torch's setting is left alone.
    """
    _phasor.set_num_threads(whole(count, "count"))
