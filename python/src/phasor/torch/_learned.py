"""Gradients of the options of attention that have one: mask, key_bias, relative_bias, alibi_slopes, sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from phasor._biases import alibi_gradient
from phasor.torch._inputs import empty_float32
from phasor.torch._options import LEARNED, Options

if TYPE_CHECKING:
    from phasor import _phasor


class LearnedGradients:
    """Memory for those that are wanted, which the C++ function fills."""

    def __init__(self, options: Options, lowered: _phasor.Options, wanted: Sequence[bool]) -> None:
        self._slopes = options.alibi_slopes if wanted[3] else None
        self._first_distance = lowered.get("first_distance", 0)
        self._memory = [empty_float32(0) for _ in LEARNED]
        self.arguments: Any = {}  # of the C++ function: grad_mask, ...
        tables: Any = lowered
        if True in wanted:
            for i, name in enumerate(LEARNED):
                if wanted[i]:
                    table = "relative_bias" if name == "alibi_slopes" else name
                    self._memory[i] = self.arguments["grad_" + table] = empty_float32(tuple(tables[table].shape))

    def finish(self) -> list[torch.Tensor]:
        """In the order of LEARNED, empty where not wanted; that of a table of slopes becomes the slopes' own."""
        if self._slopes is not None:
            self._memory[3] = alibi_gradient(self._slopes.detach(), self._memory[3], self._first_distance)
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
