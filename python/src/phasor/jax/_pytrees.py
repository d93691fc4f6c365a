"""Tables and masks as pytrees, so that they can be arguments of jitted and differentiated functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from phasor._biases import RelativeBias
from phasor._block_mask import BlockMask
from phasor._rotary import RotaryTable


def half_words(bits: Any) -> Any:
    """Words of 64 bits as pairs of 32, the lower half first: JAX cuts off the upper ones unless it has 64-bit types."""
    if bits.dtype == np.uint32:
        return bits
    if isinstance(bits, jax.Array):
        return jax.lax.bitcast_convert_type(bits, jnp.uint32).reshape(*bits.shape[:-1], -1)
    return np.ascontiguousarray(bits).astype("<u8", copy=False).view(np.uint32)


def _flat_mask(mask: BlockMask) -> tuple[tuple[Any, Any], tuple[int, int]]:
    bits = half_words(mask.bits) if hasattr(mask.bits, "dtype") else mask.bits  # JAX flattens masks of other things, too
    return (mask.blocks, bits), (mask.query_block, mask.key_block)


jax.tree_util.register_pytree_node(
    RotaryTable,
    lambda table: ((table.cos, table.sin), table.pairing),
    lambda pairing, parts: RotaryTable(parts[0], parts[1], pairing),
)
jax.tree_util.register_pytree_node(
    RelativeBias,
    lambda bias: ((bias.table,), bias.first_distance),
    lambda first_distance, parts: RelativeBias(parts[0], first_distance),
)
jax.tree_util.register_pytree_node(BlockMask, _flat_mask, lambda sizes, parts: BlockMask(parts[0], parts[1], *sizes))
