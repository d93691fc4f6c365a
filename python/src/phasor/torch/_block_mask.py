"""Block masks for torch: phasor's own, and torch's (torch.nn.attention.flex_attention), which is converted once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.attention import flex_attention as flex

from phasor._block_mask import EMPTY, FULL, BlockMask
from phasor.torch._inputs import check_memory

_PAIRS_AT_ONCE = 2**22  # of a query and a key, that mask_mod is asked about


def block_tensors(name: str, mask: Any) -> tuple[torch.Tensor, torch.Tensor, int, int]:
    """blocks, bits, query_block and key_block of a mask of phasor or torch."""
    if isinstance(mask, flex.BlockMask):
        mask = convert_block_mask(mask)
    if not isinstance(mask, BlockMask):
        raise TypeError(f"{name}: {type(mask).__name__}, expected a BlockMask of phasor or torch")
    arrays = (mask.blocks, mask.bits)
    blocks, bits = (x if isinstance(x, torch.Tensor) else torch.from_numpy(x) for x in arrays)
    check_memory(name, blocks)
    check_memory(name, bits)
    return blocks, bits, mask.query_block, mask.key_block


def convert_block_mask(mask: flex.BlockMask) -> BlockMask:
    """torch's BlockMask as phasor's.

    mask_mod is asked about the pairs of partial blocks only. The result stays with `mask`, so that later calls find it:
    mask_mod is not asked again when tensors that it reads change.
    """
    found = getattr(mask, "_phasor", None)
    return _converted(mask) if found is None else found


@torch.compiler.disable(reason="convert_block_mask: mask_mod is evaluated; call it once before torch.compile(fullgraph)")
def _converted(mask: Any) -> BlockMask:
    check_memory("block_mask", mask.kv_num_blocks)
    queries, keys = mask.seq_lengths
    query_block, key_block = (max(1, min(pair)) for pair in zip(mask.BLOCK_SIZE, (queries, keys)))
    columns = -(-keys // key_block)
    partial = _listed(mask.kv_num_blocks, mask.kv_indices, columns)
    blocks = torch.full(partial.shape, EMPTY, dtype=torch.int32)
    if mask.full_kv_num_blocks is not None:
        full = _listed(mask.full_kv_num_blocks, mask.full_kv_indices, columns)
        partial = partial & ~full
        blocks[full] = FULL
    places = partial.nonzero()
    per_step = max(1, _PAIRS_AT_ONCE // (query_block * key_block))
    words = []
    kinds = torch.empty(len(places), dtype=torch.int32)
    count = 0
    for first in range(0, len(places), per_step):
        visible = _visible(mask, places[first : first + per_step], (query_block, key_block))
        some, every = visible.flatten(1).any(1), visible.flatten(1).all(1)
        mixed = some & ~every
        kind = torch.where(every, FULL, EMPTY).int()
        kind[mixed] = torch.arange(count, count + int(mixed.sum()), dtype=torch.int32)
        count += int(mixed.sum())
        kinds[first : first + per_step] = kind
        words.append(_packed(visible[mixed]))
    blocks[tuple(places.T)] = kinds
    bits = torch.cat(words) if words else torch.empty((0, query_block, -(-key_block // 64)), dtype=torch.int64)
    mask._phasor = BlockMask(blocks, bits.view(torch.uint64), query_block, key_block)
    return mask._phasor


def _listed(counts: torch.Tensor, indices: torch.Tensor, columns: int) -> torch.Tensor:
    """True for the blocks that are listed, [B or 1, H or 1, rows, columns]: the first `counts` of `indices` of each row."""
    shape = (1, 1, *indices.shape)[-4:]
    counts, indices = counts.reshape(shape[:3]), indices.reshape(shape).long()
    counted = torch.arange(shape[3]) < counts[..., None]
    found = torch.zeros((*shape[:3], columns + 1), dtype=torch.bool)
    found.scatter_(-1, indices.where(counted, torch.tensor(columns)), True)
    return found[..., :columns]


def _visible(mask: Any, places: torch.Tensor, sizes: tuple[int, int]) -> torch.Tensor:
    """What mask_mod says of blocks [count, 4] (sequence, head, row, column): bool [count, query_block, key_block]."""
    b, h, row, column = places.unbind(1)
    q = (row[:, None] * sizes[0] + torch.arange(sizes[0])).clamp(max=mask.seq_lengths[0] - 1)
    k = (column[:, None] * sizes[1] + torch.arange(sizes[1])).clamp(max=mask.seq_lengths[1] - 1)
    asked: Any = torch.vmap(mask.mask_mod, in_dims=(None, None, None, 0))
    asked = torch.vmap(torch.vmap(asked, in_dims=(None, None, 0, None)))
    with torch.no_grad(), as_indexing():
        visible: torch.Tensor = asked(b, h, q, k)
    return visible.bool()


def as_indexing() -> Any:
    """A mode in which x[i] with a tensor i works under vmap, as torch has it for mask_mod and score_mod."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    return TransformGetItemToIndex()


def _packed(visible: torch.Tensor) -> torch.Tensor:
    """Bits of the last dimension, in words of 64."""
    packed = np.packbits(visible.numpy(), axis=-1, bitorder="little")
    padded = np.zeros((*packed.shape[:-1], -(-packed.shape[-1] // 8) * 8), np.uint8)
    padded[..., : packed.shape[-1]] = packed
    return torch.from_numpy(padded.view("<u8").astype(np.int64))
