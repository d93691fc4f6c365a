"""Gradients of the options of attention that have one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phasor._arrays import Kind
from phasor._biases import alibi_gradient

_NAMES = ("mask", "key_bias", "relative_bias", "sinks")


class OptionGradients:
    """Memory for the gradient of each table among the C++ function's options."""

    def __init__(self, kind: Kind, lowered: Mapping[str, Any]) -> None:
        self._kind = kind
        self._first_distance = lowered.get("first_distance", 0)
        self._arrays = {name: kind.empty_float32(lowered[name].shape) for name in _NAMES if name in lowered}

    def arguments(self) -> dict[str, Any]:
        """As the C++ function takes them: grad_mask, ..."""
        return {f"grad_{name}": array for name, array in self._arrays.items()}

    def finish(self, alibi_slopes: Any) -> dict[str, Any]:
        """By option; that of a table made of slopes becomes that of the slopes."""
        arrays = dict(self._arrays)
        result: dict[str, Any] = {}
        if alibi_slopes is not None:
            table = arrays.pop("relative_bias")
            result["alibi_slopes"] = alibi_gradient(alibi_slopes, table, self._first_distance)
        return result | {name: self._kind.finish(array) for name, array in arrays.items()}
