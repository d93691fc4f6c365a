"""Shapes and options are checked when a function is traced; what depends on values, by the kernels when it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from phasor._biases import RelativeBias
from phasor._block_mask import BlockMask
from phasor._rotary import RotaryTable

_LISTS = ("query_offsets", "key_lengths", "query_starts", "key_starts")


def check(
    function: Callable[..., None], inputs: Mapping[str, Any], options: Mapping[str, Any], tokens_first: bool = False
) -> None:
    """Calls a check of the C++ library with arrays in place of JAX's, whose values may not be there yet."""
    if any(isinstance(options.get(name), jax.Array) for name in ("query_starts", "key_starts")):
        return  # how many sequences there are, and how long, is a matter of values
    shapes = (_reordered(x.shape) if tokens_first else x.shape for x in inputs.values())
    function(*map(_zeros, shapes), **{name: _stand_in(name, value) for name, value in options.items()})


def _reordered(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[2], shape[1], shape[3])


def _zeros(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """As large as it says, in the memory of one row."""
    return np.broadcast_to(np.zeros(shape[-1:], dtype), shape)


def _stand_in(name: str, value: Any) -> Any:
    if isinstance(value, RotaryTable):
        return RotaryTable(_zeros(np.shape(value.cos)), _zeros(np.shape(value.sin)), value.pairing)
    if isinstance(value, tuple) and name == "relative_bias":
        return RelativeBias(_zeros(np.shape(value[0])), value[1])
    if isinstance(value, BlockMask):  # without partial blocks
        words = (value.key_block + 63) // 64
        empty = np.full(value.blocks.shape, -1, np.int32)
        return BlockMask(empty, np.zeros((0, value.query_block, words), np.uint64), value.query_block, value.key_block)
    if name == "seed":
        return 0 if value is not None else None
    if name in _LISTS:
        return _zeros(value.shape, np.int32) if isinstance(value, jax.Array) else value
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _zeros(value.shape, np.bool_ if value.dtype == np.bool_ else np.float32)
    return value
