"""Gradients of the options of attention that have one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from phasor._alibi import alibi_gradient, is_by_pairs
from phasor._arrays import Kind, is_boolean

_NAMES = ("mask", "key_bias", "relative_bias", "sinks")


class OptionGradients:
    """Memory for the gradient of each table among the C++ function's options."""

    def __init__(self, kind: Kind, lowered: Mapping[str, Any]) -> None:
        self._kind, self._lowered = kind, lowered
        self._arrays = {name: kind.empty_float32(lowered[name].shape) for name in _NAMES if name in lowered}

    def arguments(self) -> dict[str, Any]:
        """As the C++ function takes them: grad_mask, ..."""
        return {f"grad_{name}": array for name, array in self._arrays.items()}

    def finish(self, alibi_slopes: Any, mask: Any) -> dict[str, Any]:
        """By option; that of a table or mask made of slopes becomes that of the slopes. mask: as it was given."""
        arrays = dict(self._arrays)
        result: dict[str, Any] = {}
        if alibi_slopes is not None:
            table = arrays.pop("mask" if is_by_pairs(self._lowered) else "relative_bias")
            result["alibi_slopes"] = alibi_gradient(alibi_slopes, table, self._lowered)
            if is_by_pairs(self._lowered) and mask is not None and not is_boolean(mask):
                summed = summed_to(np.asarray(table), tuple(mask.shape))
                result["mask"] = self._kind.from_numpy(summed)
        return result | {name: self._kind.finish(array) for name, array in arrays.items()}


def summed_to(gradient: Any, shape: tuple[int, ...]) -> Any:
    """A gradient [B, H, T, S] summed over the dimensions in which an array of this shape, right-aligned, is broadcast."""
    wide = (1,) * (4 - len(shape)) + shape
    broadcast = tuple(i for i in range(4) if wide[i] == 1 != gradient.shape[i])
    return np.ascontiguousarray(gradient.sum(broadcast, keepdims=True).reshape(shape))
