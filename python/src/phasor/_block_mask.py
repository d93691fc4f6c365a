"""A mask in two levels, so that attention skips what it hides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phasor import _phasor
from phasor._arrays import kind_of
from phasor._errors import with_function_name
from phasor._numbers import whole


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


@with_function_name
def make_block_mask(visible: Any, *, query_block: int = 128, key_block: int = 128) -> BlockMask:
    """A BlockMask from a bool mask [B or 1, H or 1, T, S], True where the query may see the key; its arrays are new.

    Attention takes time for the blocks that are seen: documents packed into one sequence, sliding windows, prefixes, trees.
    """
    kind = kind_of(visible, "visible")
    sizes = whole(query_block, "query_block"), whole(key_block, "key_block")
    blocks, bits = _phasor.make_block_mask(visible, *sizes)
    bits = bits.view(np.uint64)  # of two types of this size torch knows one
    return BlockMask(kind.from_numpy(blocks), kind.from_numpy(bits), *sizes)
