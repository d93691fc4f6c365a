"""Masks in two levels: a map of blocks that are empty, full or partial, and the bits of the partial ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phasor import _phasor
from phasor._arrays import is_boolean, kind_of
from phasor._errors import with_function_name
from phasor._numbers import whole

EMPTY, FULL = -1, -2


@dataclass(frozen=True, eq=False)
class BlockMask:
    """Who sees whom, by blocks of queries and keys. Attention skips empty blocks, so its time follows the number of visible
    pairs: documents packed into one sequence, sliding windows, prefixes, trees.

    query_block, key_block: query i and key j, rows of q and k, are in block (i // query_block, j // key_block).
    blocks: int32 [B or 1, H or 1, ceil(T / query_block), ceil(S / key_block)]: -1 for an empty block (no query of it sees
        a key of it), -2 for a full one, or the number of a partial one.
    bits: uint64 [partial blocks, query_block, ceil(key_block / 64)]: bit j % 64 of word j // 64 of a row says whether the
        query sees key j of the block. int64 is taken too, for its bits.
    """

    query_block: int
    key_block: int
    blocks: Any
    bits: Any

    @classmethod
    @with_function_name
    def from_mask(cls, visible: Any, block_size: int | tuple[int, int] = 128) -> BlockMask:
        """From a dense mask.

        visible: bool [T, S] or [B or 1, H or 1, T, S], true where the query may see the key.
        block_size: of queries and keys, or (query_block, key_block).
        """
        kind = kind_of(visible, "visible")
        if not is_boolean(visible):
            raise TypeError(f"visible: {visible.dtype}, expected bool")
        if len(visible.shape) not in (2, 4):
            raise ValueError(
                f"visible: shape {list(visible.shape)}, expected [T, S] or [B or 1, H or 1, T, S]"
            )
        query_block, key_block = block_sizes(block_size)
        blocks, bits = _phasor.make_block_mask(kind.contiguous(visible), query_block, key_block)
        bits = bits.view(np.uint64)  # C++ has made it of unsigned long long, which torch does not take
        return cls(query_block, key_block, kind.from_numpy(blocks), kind.from_numpy(bits))

    def dense(self, queries: int, keys: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The mask as it would be given to from_mask, [B or 1, H or 1, T, S]: a copy, for plots and checks."""
        blocks, bits = np.asarray(self.blocks), np.asarray(self.bits)
        words = np.ascontiguousarray(bits).view(np.uint64).astype("<u8").view(np.uint8)
        partial = np.unpackbits(words, axis=-1, bitorder="little")[..., : self.key_block].astype(bool)
        constant = np.zeros((2, self.query_block, self.key_block), bool)
        constant[0] = True  # where blocks + 2 is 0
        tiles = np.concatenate([constant, partial])[blocks + 2]
        rows, columns = blocks.shape[2] * self.query_block, blocks.shape[3] * self.key_block
        spread: np.ndarray[Any, np.dtype[np.bool_]] = tiles.transpose(0, 1, 2, 4, 3, 5)
        return spread.reshape(*blocks.shape[:2], rows, columns)[:, :, :queries, :keys]


def block_sizes(block_size: Any) -> tuple[int, int]:
    """block_size as (query_block, key_block)."""
    pair = block_size if isinstance(block_size, (tuple, list)) else (block_size, block_size)
    if len(pair) != 2:
        raise ValueError(f"block_size: {block_size!r}, expected a whole number or (query_block, key_block)")
    sizes = whole(pair[0], "block_size"), whole(pair[1], "block_size")
    if min(sizes) < 1:
        raise ValueError(f"block_size: {block_size!r}, expected at least 1")
    return sizes
