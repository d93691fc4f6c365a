"""Sinusoidal tables, ALiBi, T5 buckets, the registry."""

from __future__ import annotations

import numpy as np
import phasor
import pytest


def test_sinusoidal():
    table = phasor.sinusoidal(50, 12)
    angles = np.arange(50)[:, None] / 10000 ** (np.arange(0, 12, 2) / 12)
    np.testing.assert_allclose(table[:, 0::2], np.sin(angles), atol=2e-7)
    np.testing.assert_allclose(table[:, 1::2], np.cos(angles), atol=2e-7)
    with pytest.raises(ValueError, match="dim: 5"):
        phasor.sinusoidal(3, 5)


def test_alibi_slopes():
    np.testing.assert_allclose(phasor.alibi_slopes(8), 2.0 ** -np.arange(1, 9))
    np.testing.assert_allclose(phasor.alibi_slopes(6), [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])
    with pytest.raises(ValueError, match="heads: 0"):
        phasor.alibi_slopes(0)


@pytest.mark.parametrize("queries, keys, offset", [(5, 5, None), (3, 9, None), (4, 6, 11)])
def test_alibi_bias(queries, keys, offset):
    bias = phasor.alibi_bias(4, queries, keys, query_offset=offset)
    positions = np.arange(queries) + (keys - queries if offset is None else offset)
    distances = np.arange(keys) - positions[:, None]
    expected = -phasor.alibi_slopes(4)[:, None, None] * np.abs(distances)
    np.testing.assert_allclose(bias.dense(queries, keys, query_offset=offset), expected)
    causal = phasor.alibi_bias(phasor.alibi_slopes(4), queries, keys, query_offset=offset, causal=True)
    assert causal.first_distance + causal.table.shape[1] == 1
    seen = np.broadcast_to(distances <= 0, expected.shape)
    np.testing.assert_allclose(causal.dense(queries, keys, query_offset=offset)[seen], expected[seen])


def t5_bucket(distance, buckets, max_distance, bidirectional):
    """As Hugging Face's T5 has it, in double."""
    bucket = 0
    if bidirectional:
        buckets //= 2
        bucket = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return bucket + distance
    large = exact + int(np.log(distance / exact) / np.log(max_distance / exact) * (buckets - exact))
    return bucket + min(large, buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_bias(bidirectional):
    weight = np.random.default_rng(2).standard_normal((32, 3)).astype(np.float32)
    dense = phasor.t5_bias(weight, bidirectional=bidirectional).dense(300)
    for i, j in ((0, 0), (5, 2), (2, 5), (250, 3), (3, 250), (130, 1), (40, 60)):
        assert np.array_equal(dense[:, i, j], weight[t5_bucket(j - i, 32, 128, bidirectional)]), (i, j)
    with pytest.raises(ValueError, match="buckets: 30"):
        phasor.t5_bias(weight[:30])
    with pytest.raises(ValueError, match=r"weight: shape \[32\], expected 2 dimensions"):
        phasor.t5_bias(weight[:, 0])


def test_biases_in_attention():
    random = np.random.default_rng(4)
    q, k = (random.standard_normal((1, 4, 9, 8)).astype(np.float32) for _ in range(2))
    weight = random.standard_normal((8, 4)).astype(np.float32)
    for bias in (phasor.t5_bias(weight, max_distance=5), phasor.alibi_bias(4, 9)):
        by_table = phasor.attention(q, k, k, relative_bias=bias)
        by_mask = phasor.attention(q, k, k, mask=bias.dense(9))
        np.testing.assert_allclose(by_table, by_mask, atol=1e-6)


def test_registry():
    names = [row.name for row in phasor.encodings()]
    assert {"none", "learned", "sinusoidal", "rope", "alibi", "t5", "relative"} <= set(names)
    assert all(row.formula and row.acts_on and row.source and row.gradient for row in phasor.encodings())
