"""Gradients of the options of attention that have one: mask, key_bias, relative_bias, alibi_slopes, sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from phasor._biases import alibi_gradient
from phasor.torch._options import LEARNED, Options


class LearnedGradients:
    """Memory for those that are wanted, which the C++ function fills."""

    def __init__(self, options: Options, lowered: dict[str, Any], wanted: Sequence[bool]) -> None:
        self._slopes = options.alibi_slopes
        self._first_distance = lowered.get("first_distance", 0)
        self._memory: list[torch.Tensor] = []
        self.arguments: dict[str, torch.Tensor] = {}  # of the C++ function: grad_mask, ...
        for name, is_wanted in zip(LEARNED, wanted):
            if is_wanted:
                table = "relative_bias" if name == "alibi_slopes" else name
                self._memory.append(torch.empty(tuple(lowered[table].shape)))
                self.arguments["grad_" + table] = self._memory[-1]
            else:
                self._memory.append(torch.empty(0))
        self._of_slopes = wanted[3]

    def finish(self) -> list[torch.Tensor]:
        """In the order of LEARNED, empty where not wanted; that of a table made of slopes becomes that of the slopes."""
        if self._of_slopes and self._slopes is not None:
            self._memory[3] = alibi_gradient(self._slopes.detach(), self._memory[3], self._first_distance)
        return self._memory


def fake_gradients(like: torch.Tensor, wanted: Sequence[bool], options: Sequence[Any]) -> list[torch.Tensor]:
    """The shapes of LearnedGradients.finish."""
    return [
        like.new_empty(option.shape if is_wanted else (0,), dtype=torch.float32)
        for option, is_wanted in zip(options, wanted)
    ]


def by_option(gradients: Sequence[torch.Tensor], wanted: Sequence[bool]) -> tuple[torch.Tensor | None, ...]:
    """As autograd takes them: one for each field of Options, None where there is none."""
    learned = (gradient if is_wanted else None for gradient, is_wanted in zip(gradients, wanted))
    return (*learned, *_NONE)


_NONE = (None,) * (len(Options._fields) - len(LEARNED))
