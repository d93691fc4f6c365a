"""phasor.BlockMask: what it is made of, and that attention sees by it as by the dense mask."""

from __future__ import annotations

import numpy as np
import phasor
import pytest
import reference

B, H, G, T, S, D = 2, 4, 2, 150, 333, 16
random = np.random.default_rng(5)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def documents(ids, keys=None):
    """Causal within each document."""
    keys = ids if keys is None else keys
    return (ids[:, None] == keys) & (np.arange(len(ids))[:, None] >= np.arange(len(keys)))


VISIBLE = {
    "all": np.ones((T, S), bool),
    "none": np.zeros((T, S), bool),
    "random": random.random((B, H, T, S)) < 0.3,
    "few": random.random((1, H, T, S)) < 0.001,
    "documents": documents(np.repeat(np.arange(5), 30), np.repeat(np.arange(5), [30, 100, 1, 2, 200])),
    "window": np.abs(np.arange(T)[:, None] - np.arange(S)) < 20,
    "of a sequence": random.random((B, 1, 1, 1)).repeat(T, 2).repeat(S, 3) < 0.5,
}


@pytest.mark.parametrize("block_size", [128, 64, (1, 1), (7, 70), (1000, 333), (32, 200)])
@pytest.mark.parametrize("name", VISIBLE)
def test_dense_is_what_it_was_made_from(name, block_size):
    visible = VISIBLE[name]
    mask = phasor.make_block_mask(visible, block_size)
    expected = visible if visible.ndim == 4 else visible[None, None]
    dense = mask.dense(T, S)
    assert dense.dtype == bool
    np.testing.assert_array_equal(dense, expected)
    assert mask.blocks.dtype == np.int32 and mask.bits.dtype == np.uint64
    if np.prod(mask.blocks.shape) < 500:  # the reference goes pair by pair
        np.testing.assert_array_equal(reference.seen_by_blocks(mask, 20, 40), expected[:, :, :20, :40])


def test_blocks():
    visible = np.zeros((4, 6), bool)
    visible[:2, :3] = True
    visible[2, 5] = True
    mask = phasor.make_block_mask(visible, (2, 3))
    np.testing.assert_array_equal(mask.blocks, [[[[-2, -1], [-1, 0]]]])
    np.testing.assert_array_equal(mask.bits, [[[4], [0]]])
    assert (mask.query_block, mask.key_block) == (2, 3)


@pytest.mark.parametrize("name", VISIBLE)
@pytest.mark.parametrize("block_size", [64, (5, 90)])
def test_attention_sees_as_by_the_dense_mask(name, block_size):
    """Forward and backward; beside other options too."""
    q, k, v, grad = normal(B, H, T, D), normal(B, G, S, D), normal(B, G, S, D), normal(B, H, T, D)
    visible, options = VISIBLE[name], {"sinks": normal(H), "key_bias": normal(B, H, S), "query_scale": normal(B, 1, T)}
    results = []
    for given in ({"mask": visible}, {"block_mask": phasor.make_block_mask(visible, block_size)}):
        all_options = options | given
        out, lse, softmax = phasor.attention(q, k, v, **all_options, return_lse=True, return_softmax=True)
        gradients = phasor.attention_backward(q, k, v, out, softmax, grad, **all_options)
        results.append([out, lse, gradients.q, gradients.k, gradients.v, gradients.key_bias, gradients.query_scale])
    for dense, blocks in zip(*results):
        # Sums over keys may be grouped otherwise: a few ulp of sums of size 10.
        np.testing.assert_allclose(blocks, dense, atol=1e-5, rtol=1e-5)


def test_beside_mask_and_causal():
    q, k, v = normal(1, H, 40, D), normal(1, H, 40, D), normal(1, H, 40, D)
    visible, bias = random.random((40, 40)) < 0.5, normal(40, 40)
    mask = phasor.make_block_mask(visible, 16)
    actual = phasor.attention(q, k, v, block_mask=mask, mask=bias, causal=True)
    expected = reference.attention(q, k, v, mask=np.where(visible, bias, -np.inf), causal=True)[0]
    np.testing.assert_allclose(actual, expected, atol=3e-6)


def test_in_a_cache():
    q, k, v = normal(1, H, 3, D), normal(1, G, 20, D), normal(1, G, 20, D)
    cache = phasor.KVCache(1, G, 20, D)
    cache.append(k, v)
    visible = random.random((3, 20)) < 0.5
    mask = phasor.make_block_mask(visible, (2, 8))
    np.testing.assert_array_equal(cache.attention(q, block_mask=mask), phasor.attention(q, k, v, block_mask=mask))


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ((np.ones((2, 2), np.float32),), TypeError, "visible: float32, expected bool"),
        ((np.ones((1, 2, 2), bool),), ValueError, r"visible: shape \[1, 2, 2\], expected \[T, S\] or"),
        (([[True]],), TypeError, "visible: list, expected an array"),
        ((np.ones((2, 2), bool), 0), ValueError, "block_size: 0, expected at least 1"),
        ((np.ones((2, 2), bool), (1, 2, 3)), ValueError, r"block_size: \(1, 2, 3\), expected"),
        ((np.ones((2, 2), bool), 1.5), TypeError, "block_size: 1.5, expected a whole number"),
    ],
)
def test_errors(arguments, error, words):
    with pytest.raises(error, match=r"\[make_block_mask\] " + words):
        phasor.make_block_mask(*arguments)
