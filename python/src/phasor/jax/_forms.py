"""How an option of attention becomes operands and attributes of a call to XLA, by its type in the table of options.

The C++ side (bindings/jax/options.cc) reads them by the same names. Operands have all their dimensions, so that those
which vmap puts before them are told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from phasor._block_mask import BlockMask
from phasor._numbers import real, whole
from phasor._rotary import RotaryTable
from phasor.jax._pytrees import half_words

Parts = tuple[dict[str, Any], dict[str, Any]]  # operands and attributes
_HALVES = ("bfloat16", "float16")


def as_array(name: str, value: Any) -> jax.Array:
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: {type(value).__name__}, expected an array") from None


def _float32(name: str, value: Any, kinds: str = "float32") -> jax.Array:
    """What is added to scores is float32; the half types are cast."""
    array = as_array(name, value)
    if array.dtype.name in _HALVES:
        return array.astype(jnp.float32)
    if array.dtype != jnp.float32:
        raise TypeError(f"{name}: {array.dtype}, expected {kinds}")
    return array


def _with_rank(name: str, array: jax.Array, rank: int, least: int = 1) -> jax.Array:
    """Leading dimensions that were left out."""
    if not least <= array.ndim <= rank:
        expected = str(rank) if least == rank else f"{least} to {rank}"
        raise ValueError(f"{name}: shape {list(array.shape)}, expected {expected} dimensions")
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def _array(name: str, value: Any, shape: str) -> Parts:
    rank = shape.count(",") + 1  # "[B or 1, H or 1, T]" has three
    return {name: _with_rank(name, _float32(name, value), rank)}, {}


def _mask(name: str, value: Any, _: str) -> Parts:
    array = as_array(name, value)
    if array.dtype != jnp.bool_:
        array = _float32(name, array, "bool or float32")
    return {name: _with_rank(name, array, 4)}, {}


def _relative_bias(name: str, value: Any, _: str) -> Parts:
    if isinstance(value, tuple):  # a RelativeBias is one, too
        if len(value) != 2:
            raise ValueError(f"{name}: a tuple of {len(value)}, expected (table, first_distance)")
        table, first = _with_rank(name, _float32(name, value[0]), 2, 2), whole(value[1], name)
    else:
        table = _float32(name, value)
        if table.ndim != 2 or table.shape[1] % 2 == 0:
            raise ValueError(
                f"{name}: shape {list(table.shape)}, expected [H, 2 n + 1] for the distances -n .. n, or a RelativeBias"
            )
        first = -(table.shape[1] // 2)
    return {name: table}, {f"{name}_first_distance": first}


def _rotary(name: str, value: Any, _: str) -> Parts:
    if not isinstance(value, RotaryTable):
        raise TypeError(f"{name}: {type(value).__name__}, expected a RotaryTable")
    if value.pairing not in ("half", "adjacent"):
        raise ValueError(f'{name}: pairing {value.pairing!r}, expected "half" or "adjacent"')
    operands = {}
    for part, table in (("cos", value.cos), ("sin", value.sin)):
        array = _float32(name, table)
        if array.ndim == 3:
            array = array[:, None]  # [B, T, R/2]: all heads share it
        operands[f"{name}_{part}"] = _with_rank(name, array, 4, 2)
    return operands, {f"{name}_pairing": value.pairing}


def _block_mask(name: str, value: Any, _: str) -> Parts:
    if not isinstance(value, BlockMask):
        raise TypeError(f"{name}: {type(value).__name__}, expected a BlockMask")
    blocks, bits = as_array(name, value.blocks), as_array(name, half_words(value.bits))
    if blocks.dtype != jnp.int32:
        raise TypeError(f"{name}: blocks of {blocks.dtype}, expected int32")
    sizes = {f"{name}_query_block": value.query_block, f"{name}_key_block": value.key_block}
    return {f"{name}_blocks": _with_rank(name, blocks, 4, 2), f"{name}_bits": _with_rank(name, bits, 3, 3)}, sizes


def _integers(name: str, value: Any, _: str) -> Parts:
    if not isinstance(value, jax.Array):
        value = np.asarray(value)
        if value.dtype.kind == "i" and value.size and max(abs(int(value.min())), abs(int(value.max()))) < 2**31:
            value = value.astype(np.int32)
        elif value.dtype.kind == "i" and not jax.config.jax_enable_x64:
            raise ValueError(f"{name}: {value.tolist()}, expected whole numbers of 32 bits, or jax_enable_x64")
    array = as_array(name, value)
    if array.dtype.name not in ("int32", "int64"):
        raise TypeError(f"{name}: {array.dtype}, expected whole numbers: int32 or int64")
    if array.size == 0:
        raise ValueError(f"{name}: no numbers, expected one for each sequence")
    return {name: _with_rank(name, array, 1, 0)}, {}


def _seed(name: str, value: Any, _: str) -> Parts:
    """A whole number, an array of one, or a key of jax.random: 32 or 64 bits."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 0 <= int(value) < 2**64:
            raise TypeError(f"{name}: {value!r}, expected a whole number, 0 .. 2^64 - 1")
        return {name: jnp.asarray(np.array([int(value) >> 32, int(value) % 2**32], np.uint32))}, {}
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = as_array(name, value)
    if array.dtype.name not in ("uint32", "int32") or array.size not in (1, 2) or array.ndim > 1:
        raise TypeError(
            f"{name}: {array.dtype} of shape {list(array.shape)}, expected a whole number of 32 bits or a key of jax.random"
        )
    return {name: array.astype(jnp.uint32).reshape(-1)}, {}


def _window(name: str, value: Any, _: str) -> Parts:
    left, right = value, None
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 2:
            raise ValueError(f"{name}: {value!r}, expected (left, right)")
        left, right = value
    sides = {f"{name}_left": left, f"{name}_right": right}
    return {}, {side: whole(size, name) for side, size in sides.items() if size is not None}


def _flag(name: str, value: Any, _: str) -> Parts:
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name}: {value}, expected True or False that is known when the function is traced")
    return {}, {name: bool(value)}


def _text(name: str, value: Any, _: str) -> Parts:
    if not isinstance(value, str):
        raise TypeError(f"{name}: {value!r}, expected a str")
    return {}, {name: value}


# By type: (name, value, shape of the table) -> operands and attributes.
FORMS: dict[str, Callable[[str, Any, str], Parts]] = {
    "float32 array": _array,
    "bool or float32 array": _mask,
    "RelativeBias": _relative_bias,
    "RotaryTable": _rotary,
    "BlockMask": _block_mask,
    "integers": _integers,
    "int": _seed,
    "int or (left, right)": _window,
    "bool": _flag,
    "str": _text,
    "float": lambda name, value, shape: ({}, {name: real(value, name)}),
}
