"""What transformers' mask functions mean, in phasor's options.

transformers describes who sees whom by a function of indices, put together from a few of its own. Those are known here
by their code; what they hold (a window's size) is read from their closures. Any other function has no pattern.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from transformers import masking_utils


class Pattern(NamedTuple):
    """Which keys a query at position p sees: those at j with p - left < j < p + right, j <= p where causal."""

    causal: bool = False
    left: int | None = None
    right: int | None = None
    sequences: torch.Tensor | None = None  # [B, T], the number of each token's sequence, where several are packed

    @property
    def window(self) -> tuple[int | None, int | None] | None:
        return None if self.left is None and self.right is None else (self.left, self.right)


def pattern_of(function: Any) -> Pattern | None:
    """The pattern of a mask function, or None when it is not one of those known."""
    if function is masking_utils.causal_mask_function:
        return Pattern(causal=True)
    if function is masking_utils.bidirectional_mask_function:
        return Pattern()
    reader = _READERS.get(getattr(function, "__code__", None))
    if reader is None:
        return None
    held = dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__)))
    pattern: Pattern | None = reader(*held.values())
    return pattern


def _all_of(functions: tuple[Any, ...]) -> Pattern | None:
    whole = Pattern()
    for function in functions:
        part = pattern_of(function)
        if part is None:
            return None
        if any(a is not None and b is not None for a, b in zip(whole[1:], part[1:])):
            return None  # two windows: rare enough for a dense mask
        whole = Pattern(whole.causal or part.causal, *(b if a is None else a for a, b in zip(whole[1:], part[1:])))
    return whole


# The code that a function of transformers gives its results -> what its closure means.
_READERS: dict[Any, Any] = {
    masking_utils.and_masks(masking_utils.causal_mask_function).__code__: _all_of,
    masking_utils.sliding_window_overlay(1).__code__: lambda size: Pattern(left=size),
    masking_utils.sliding_window_bidirectional_overlay(1).__code__: lambda size: Pattern(left=size + 1, right=size + 1),
    masking_utils.packed_sequence_mask_function(torch.zeros(1, 1)).__code__: lambda ids: Pattern(sequences=ids),
}
if hasattr(masking_utils, "remap_positions_for_packed_sequence"):  # from 5.23 on, always beside the function above
    # Positions that count anew in each sequence: so they do in a Pattern with sequences.
    _remapped = masking_utils.remap_positions_for_packed_sequence(masking_utils.causal_mask_function, torch.zeros(1, 1))
    _READERS[_remapped.__code__] = lambda function, positions: pattern_of(function)
