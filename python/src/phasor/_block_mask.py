"""A mask in two levels, so that attention skips what it hides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phasor import _phasor
from phasor._arrays import is_boolean, kind_of
from phasor._errors import with_function_name
from phasor._numbers import whole


EMPTY, FULL = -1, -2  # blocks of which nothing is seen, or everything


@dataclass(frozen=True, eq=False)
class BlockMask:
    """A map of blocks of queries and keys, and the bits of those that are hidden in part.

    blocks: [B or 1, H or 1, ceil(T / query_block), ceil(S / key_block)] int32: -1 for a block of which nothing is seen, -2
        for one of which everything is, else the number of a partial block.
    bits: [partial blocks, query_block, ceil(key_block / 64)] uint64: bit j % 64 of word j / 64 says whether a query sees key j.
    query_block, key_block: the sizes of a block.
    """

    blocks: Any
    bits: Any
    query_block: int
    key_block: int

    def dense(self, queries: int, keys: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The mask as bool [B or 1, H or 1, T, S]: a copy, for plots and checks."""
        blocks, bits = np.asarray(self.blocks), np.asarray(self.bits)
        words = np.ascontiguousarray(bits).view(np.uint64).astype("<u8").view(np.uint8)
        partial = np.unpackbits(words, axis=-1, bitorder="little")[..., : self.key_block].astype(bool)
        constant = np.zeros((2, self.query_block, self.key_block), bool)
        constant[0] = True  # of a full block, where blocks + 2 is 0
        tiles = np.concatenate([constant, partial])[blocks + 2]
        rows, columns = blocks.shape[2] * self.query_block, blocks.shape[3] * self.key_block
        spread: np.ndarray[Any, np.dtype[np.bool_]] = tiles.transpose(0, 1, 2, 4, 3, 5)
        return spread.reshape(*blocks.shape[:2], rows, columns)[:, :, :queries, :keys]


def _block_sizes(block_size: Any) -> tuple[int, int]:
    """block_size as (query_block, key_block)."""
    pair = block_size if isinstance(block_size, (tuple, list)) else (block_size, block_size)
    if len(pair) != 2:
        raise ValueError(f"block_size: {block_size!r}, expected a whole number or (query_block, key_block)")
    sizes = whole(pair[0], "block_size"), whole(pair[1], "block_size")
    if min(sizes) < 1:
        raise ValueError(f"block_size: {block_size!r}, expected at least 1")
    return sizes


@with_function_name
def make_block_mask(visible: Any, block_size: int | tuple[int, int] = 128) -> BlockMask:
    """A BlockMask from a dense mask; its arrays are new.

    Attention takes time for the blocks that are seen: documents packed into one sequence, sliding windows, prefixes, trees.

    visible: bool [T, S] or [B or 1, H or 1, T, S], True where the query may see the key.
    block_size: of queries and keys, or (query_block, key_block).
    """
    kind = kind_of(visible, "visible")
    if not is_boolean(visible):
        raise TypeError(f"visible: {visible.dtype}, expected bool")
    if len(visible.shape) not in (2, 4):
        raise ValueError(f"visible: shape {list(visible.shape)}, expected [T, S] or [B or 1, H or 1, T, S]")
    sizes = _block_sizes(block_size)
    blocks, bits = _phasor.make_block_mask(kind.contiguous(visible), *sizes)
    bits = bits.view(np.uint64)  # of two types of this size torch knows one
    return BlockMask(kind.from_numpy(blocks), kind.from_numpy(bits), *sizes)
