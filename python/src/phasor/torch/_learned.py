"""Gradients of the options of attention that have one: mask, key_bias, relative_bias, alibi_slopes, sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from phasor._alibi import alibi_gradient, is_by_pairs
from phasor.torch._inputs import empty_float32
from phasor.torch._options import LEARNED, Options

if TYPE_CHECKING:
    from phasor import _phasor


class LearnedGradients:
    """Memory for those that are wanted, which the C++ function fills."""

    def __init__(self, options: Options, lowered: _phasor.Options, wanted: Sequence[bool]) -> None:
        self._options, self._lowered, self._wanted = options, lowered, wanted
        self._memory = [empty_float32(0) for _ in LEARNED]
        self.arguments: Any = {}  # of the C++ function: grad_mask, ...
        tables: Any = lowered
        if True in wanted:
            of_slopes = "mask" if is_by_pairs(lowered) else "relative_bias"
            for i, name in enumerate(LEARNED):
                if wanted[i]:
                    table = of_slopes if name == "alibi_slopes" else name
                    if "grad_" + table not in self.arguments:
                        self.arguments["grad_" + table] = empty_float32(tuple(tables[table].shape))
                    self._memory[i] = self.arguments["grad_" + table]

    def finish(self) -> list[torch.Tensor]:
        """In the order of LEARNED, empty where not wanted; that of a table of slopes becomes the slopes' own."""
        slopes, mask = self._options.alibi_slopes, self._options.mask
        if slopes is not None and self._wanted[3]:
            self._memory[3] = alibi_gradient(slopes.detach(), self._memory[3], self._lowered)
        if mask is not None and self._wanted[0] and self._memory[0].shape != mask.shape:  # slopes were added to it
            self._memory[0] = self._memory[0].sum_to_size(mask.shape)
        return self._memory


def fake_gradients(like: torch.Tensor, wanted: Sequence[bool], options: Sequence[Any]) -> list[torch.Tensor]:
    """The shapes of LearnedGradients.finish."""
    return [
        like.new_empty(option.shape if is_wanted else (0,), dtype=torch.float32)
        for option, is_wanted in zip(options, wanted)
    ]


def only_wanted(gradients: Sequence[torch.Tensor], wanted: Sequence[bool]) -> list[torch.Tensor | None]:
    """As autograd takes them: None where there is none."""
    return [gradient if is_wanted else None for gradient, is_wanted in zip(gradients, wanted)]
