"""Block masks of torch's flex_attention: results as torch's own, gradients as float64 autograd through dense scores."""

from __future__ import annotations

import phasor.torch
import pytest
import torch
from flex_dense import B, D, E, G, H, S, T, alibi, dense, inputs, normal
from torch.nn.attention import flex_attention as flex


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(23)


DOCUMENTS = torch.tensor([0] * 11 + [1] * 40 + [2] + [3] * 30 + [4] * 20).repeat(3)
PREFIX = torch.tensor([7, 33])
PARENTS = torch.tensor([-1, 0, 0, 1, 1, 2, 2, 3, 5, 5])  # a tree of drafted tokens


def ancestors():
    result = torch.eye(len(PARENTS), dtype=torch.bool)
    for child, parent in enumerate(PARENTS.tolist()):
        if parent >= 0:
            result[child] |= result[parent]
    return result


TREE = ancestors()
CACHED = 60  # tokens before the tree
MASKS = {
    "causal": lambda b, h, i, j: i >= j,
    "documents": lambda b, h, i, j: (DOCUMENTS[i] == DOCUMENTS[j]) & (i >= j),
    "window": lambda b, h, i, j: (i - j).abs() < 9,
    "sliding window": lambda b, h, i, j: (i >= j) & (i - j < 12),
    "windows of heads": lambda b, h, i, j: (i - j).abs() < 8 * (h + 1),
    "prefix LM": lambda b, h, i, j: (i >= j) | (j < PREFIX[b]),
    "tree": lambda b, h, i, j: (j < CACHED) | ((j - CACHED >= 0) & TREE[i.clamp(0, 9), (j - CACHED).clamp(0, 9)]),
    "none": lambda b, h, i, j: i < 0 * j,
    "all": lambda b, h, i, j: i >= 0 * j,
}
SIZES = {"tree": (10, 70)}


def block_mask(name, block_size=32):
    queries, keys = SIZES.get(name, (T, S))
    batch, heads = B if name == "prefix LM" else None, H if name == "windows of heads" else None
    return flex.create_block_mask(MASKS[name], batch, heads, queries, keys, device="cpu", BLOCK_SIZE=block_size)


@pytest.mark.parametrize("block_size", [32, (16, 48), 128])
@pytest.mark.parametrize("name", MASKS)
def test_block_masks(name, block_size):
    queries, keys = SIZES.get(name, (T, S))
    tensors = [normal(B, H, queries, D), normal(B, G, keys, D), normal(B, G, keys, E)]
    slopes = normal(H, scale=0.1)
    mask = block_mask(name, block_size)
    out = phasor.torch.flex_attention(*tensors, alibi(slopes), mask, 0.3, True)
    plain = [x.detach() for x in tensors]
    torchs = flex.flex_attention(*plain, alibi(slopes.detach()), mask, 0.3, True)
    torch.testing.assert_close(out, torchs, rtol=1e-5, atol=1e-5)

    doubles = [x.detach().double().requires_grad_() for x in (*tensors, slopes)]
    exact, _ = dense(*doubles[:3], alibi(doubles[3]), MASKS[name], 0.3)
    factor = torch.randn(out.shape)
    gradients = torch.autograd.grad((out * factor).sum(), [*tensors, slopes])
    if name == "none":  # whose softmax has no gradient
        assert not out.any() and not any(x.any() for x in gradients)
        return
    for ours, true in zip(gradients, torch.autograd.grad((exact * factor).sum(), doubles)):
        torch.testing.assert_close(ours.double(), true, rtol=1e-4, atol=1e-4 * max(1.0, true.abs().max().item()))


@pytest.mark.parametrize("name", MASKS)
def test_conversion(name):
    """Also where all listed blocks are partial."""
    queries, keys = SIZES.get(name, (T, S))
    mask = block_mask(name)
    only_partial = flex.BlockMask.from_kv_blocks(
        *_all_blocks(mask), BLOCK_SIZE=mask.BLOCK_SIZE, mask_mod=mask.mask_mod, seq_lengths=mask.seq_lengths
    )
    assert only_partial.full_kv_num_blocks is None
    shape = mask.kv_num_blocks.shape[:2]
    expected = flex.create_mask(MASKS[name], *shape, queries, keys, device="cpu")
    for given in (mask, only_partial):
        ours = phasor.torch.convert_block_mask(given)
        assert torch.equal(torch.from_numpy(ours.dense(queries, keys)), expected)
        assert phasor.torch.convert_block_mask(given) is ours


def _all_blocks(mask):
    """kv_num_blocks and kv_indices that list every block."""
    rows, columns = (-(-n // size) for n, size in zip(mask.seq_lengths, mask.BLOCK_SIZE))
    shape = (*mask.kv_num_blocks.shape[:2], rows)
    indices = torch.arange(columns, dtype=torch.int32).expand(*shape, columns).contiguous()
    return torch.full(shape, columns, dtype=torch.int32), indices


def test_mask_mod_is_asked_about_partial_blocks_once():
    asked = []

    def mod(b, h, i, j):
        asked.append(1)
        return i >= j

    mask = flex.create_block_mask(mod, None, None, T, S, device="cpu", BLOCK_SIZE=16)
    q, k, v = inputs()
    asked.clear()
    first = phasor.torch.flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
    count = len(asked)
    second = phasor.torch.attention(q, k, v, block_mask=mask)
    assert count > 0 and len(asked) == count and torch.equal(first, second)


def test_block_masks_compile():
    """fullgraph where the mask was converted before."""
    tensors = inputs()
    mask = block_mask("documents")

    def function(q, k, v, mask):
        return phasor.torch.flex_attention(q, k, v, block_mask=mask, enable_gqa=True).square()

    compiled = torch.compile(function, backend="aot_eager")
    torch.testing.assert_close(compiled(*tensors, mask), function(*tensors, mask))
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    for given in (mask, phasor.torch.convert_block_mask(mask)):
        results = [torch.autograd.grad(f(*tensors, given).sum(), tensors) for f in (compiled, function)]
        for ours, true in zip(*results):
            torch.testing.assert_close(ours, true)
