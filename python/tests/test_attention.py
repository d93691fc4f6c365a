"""phasor.attention against plain NumPy in double."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import phasor
import pytest
import reference

B, H, G, T, S, D, E = 2, 6, 3, 13, 29, 24, 17


@pytest.fixture
def random():
    return np.random.default_rng(7)


def normal(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


@pytest.fixture
def qkv(random):
    return normal(random, B, H, T, D), normal(random, B, G, S, D), normal(random, B, G, S, E)


def options(random):
    """A name and the options of each case."""
    table = phasor.Rope(D, rotary_dim=16).table(np.arange(S))
    shifted = phasor.Rope(D, pairing="adjacent").table(np.arange(2 * T).reshape(2, T) + 5)
    keys = phasor.Rope(D, pairing="adjacent").table(np.arange(2 * S).reshape(2, S))
    yield "plain", {}
    yield "scale", {"scale": 0.3}
    yield "scale of queries", {"query_scale": normal(random, B, H, T)}
    yield "scale of queries of rank 1, softcap", {"query_scale": normal(random, T), "softcap": 2.0}
    blocks = phasor.make_block_mask(random.random((B, 1, T, S)) < 0.7, (4, 8))
    yield "block mask", {"block_mask": blocks, "causal": True}
    tall = np.repeat(np.repeat(random.random((1, H, 3, 2)) < 0.6, 8, 2), 16, 3)[:, :, :T, :S]
    yield "block mask of heads", {"block_mask": phasor.make_block_mask(tall, (8, 16))}
    yield "causal", {"causal": True}
    yield "window", {"causal": True, "window": 5}
    yield "two-sided window", {"window": (4, 3)}
    yield "right window", {"window": (None, 3)}
    yield "offset", {"causal": True, "query_offsets": 4}
    yield "offsets", {"causal": True, "query_offsets": [3, 20]}
    yield "offsets as array", {"causal": True, "query_offsets": np.array([3, 20], dtype=np.int32)}
    yield "lengths", {"key_lengths": [9, 29]}
    yield "lengths as array", {"key_lengths": np.array([9, 0]), "causal": True}
    yield "boolean mask", {"mask": random.random((B, 1, T, S)) < 0.7}
    yield "boolean mask of rank 2", {"mask": random.random((T, S)) < 0.5}
    yield "additive mask", {"mask": normal(random, 1, H, T, S)}
    yield "additive mask of rank 3", {"mask": normal(random, H, 1, S)}
    yield "key bias", {"key_bias": normal(random, B, G, S)}
    yield "key bias of query heads", {"key_bias": normal(random, B, H, S)}
    yield "key bias of rank 1", {"key_bias": normal(random, S)}
    yield "relative bias", {"relative_bias": phasor.RelativeBias(normal(random, H, 12), -7)}
    yield "relative bias as tuple", {"relative_bias": (normal(random, H, 4), -1), "causal": True}
    yield "alibi", {"alibi_slopes": phasor.alibi_slopes(H)}
    yield "causal alibi", {"alibi_slopes": phasor.alibi_slopes(H), "causal": True}
    yield "alibi in a window", {"alibi_slopes": phasor.alibi_slopes(H), "window": 6}
    yield "alibi with offsets", {"alibi_slopes": phasor.alibi_slopes(H), "query_offsets": [1, 40]}
    yield "rotation", {"q_rotary": table, "k_rotary": table}
    yield "rotation by sequence", {"q_rotary": shifted, "k_rotary": keys}
    angles = random.standard_normal((1, H, T, 8))
    by_head = phasor.rotary_table(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32), pairing="half")
    yield "rotation by head", {"q_rotary": by_head}
    yield "softcap", {"softcap": 2.0, "scale": 1.0}
    yield "sinks", {"sinks": normal(random, H)}
    yield "all", {
        "causal": True, "window": 20, "key_bias": normal(random, 1, G, S), "mask": normal(random, B, 1, 1, S),
        "alibi_slopes": phasor.alibi_slopes(H), "q_rotary": shifted, "k_rotary": keys, "softcap": 5.0,
        "sinks": normal(random, H), "key_lengths": [25, 28], "query_offsets": [12, 15],
    }  # fmt: skip


CASES = dict(options(np.random.default_rng(3)))


@pytest.mark.parametrize("name", CASES)
def test_every_option(qkv, name):
    out, lse, weights = phasor.attention(*qkv, **CASES[name], return_lse=True, return_weights=True)
    expected_out, expected_lse, expected_weights = reference.attention(*qkv, **CASES[name])
    # Sums of at most 29 terms and scores of size 10 in float: a few 2^-24 of them.
    np.testing.assert_allclose(out, expected_out, atol=4e-6, rtol=0)
    np.testing.assert_allclose(lse, expected_lse, atol=4e-6, rtol=0)
    np.testing.assert_allclose(weights, expected_weights, atol=4e-6, rtol=0)
    assert out.dtype == lse.dtype == weights.dtype == np.float32


def test_results_asked_for(qkv):
    out = phasor.attention(*qkv)
    assert isinstance(out, np.ndarray) and out.shape == (B, H, T, E)
    with_lse = phasor.attention(*qkv, return_lse=True)
    with_weights = phasor.attention(*qkv, return_weights=True)
    assert [x.shape for x in with_lse] == [(B, H, T, E), (B, H, T)]
    assert [x.shape for x in with_weights] == [(B, H, T, E), (B, H, T, S)]


def test_relative_bias_without_first_distance_is_centred(qkv, random):
    table = normal(random, H, 9)
    bare = phasor.attention(*qkv, relative_bias=table)
    named = phasor.attention(*qkv, relative_bias=phasor.RelativeBias(table, -4))
    assert np.array_equal(bare, named)


@pytest.mark.parametrize("dtype, precision", [(np.float16, 2**-11), (ml_dtypes.bfloat16, 2**-8)])
def test_half_precision(qkv, dtype, precision):
    q, k, v = (x.astype(dtype) for x in qkv)
    out = phasor.attention(q, k, v, causal=True)
    assert out.dtype == dtype
    expected, _, _ = reference.attention(*(x.astype(np.float64) for x in (q, k, v)), causal=True)
    # Rounded once, at the end.
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=precision, atol=1e-5)


def test_any_outer_strides(qkv):
    expected = phasor.attention(*qkv, causal=True)
    by_token = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in qkv]
    assert not by_token[0].flags.c_contiguous
    assert np.array_equal(phasor.attention(*by_token, causal=True), expected)
    padded = [np.pad(x, ((0, 1), (0, 2), (0, 3), (0, 5)))[:B, : x.shape[1], : x.shape[2], : x.shape[3]] for x in qkv]
    assert np.array_equal(phasor.attention(*padded, causal=True), expected)
    backwards = [np.ascontiguousarray(x[:, :, ::-1])[:, :, ::-1] for x in qkv]
    assert backwards[0].strides[2] < 0
    assert np.array_equal(phasor.attention(*backwards, causal=True), expected)


def test_broadcast_and_read_only_input(qkv):
    q, k, v = qkv
    one = np.broadcast_to(k[:, :1], k.shape)
    assert not one.flags.writeable
    assert np.array_equal(phasor.attention(q, one, v), phasor.attention(q, one.copy(), v))


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1), (1, 5, 1, 300, 3, 1), (3, 2, 65, 67, 65, 33), (1, 4, 1, 1, 512, 2)])
def test_odd_sizes(random, sizes):
    batch, heads, queries, keys, channels, value_channels = sizes
    q, k = normal(random, batch, heads, queries, channels), normal(random, batch, 1, keys, channels)
    v = normal(random, batch, 1, keys, value_channels)
    out = phasor.attention(q, k, v)
    np.testing.assert_allclose(out, reference.attention(q, k, v)[0], atol=4e-6, rtol=0)


@pytest.mark.parametrize("shape, keys", [((0, 2, 3, 4), 5), ((1, 2, 0, 4), 5), ((1, 2, 3, 4), 0)])
def test_empty(shape, keys):
    q = np.ones(shape, np.float32)
    k = np.ones((shape[0], 1, keys, 4), np.float32)
    out, lse = phasor.attention(q, k, k, return_lse=True)
    assert out.shape == shape and not out.any()
    assert np.all(lse == -np.inf)


def test_ragged_batch_equals_its_sequences(random):
    q, k, v = normal(random, 1, H, 10, D), normal(random, 1, G, 17, D), normal(random, 1, G, 17, E)
    slopes = phasor.alibi_slopes(H)
    options = {"causal": True, "alibi_slopes": slopes}
    whole = phasor.attention(q, k, v, query_starts=[0, 4, 4, 10], key_starts=np.array([0, 6, 9, 17]), **options)
    for queries, keys in (((0, 4), (0, 6)), ((4, 10), (9, 17))):
        part = [x[:, :, slice(*rows)] for x, rows in ((q, queries), (k, keys), (v, keys))]
        expected = phasor.attention(*part, **options)
        np.testing.assert_allclose(whole[:, :, slice(*queries)], expected, atol=1e-6, rtol=0)
    same = phasor.attention(q, q[:, ::2], q[:, ::2], query_starts=[0, 4, 10], causal=True)
    pair = phasor.attention(q, q[:, ::2], q[:, ::2], query_starts=[0, 4, 10], key_starts=[0, 4, 10], causal=True)
    assert np.array_equal(same, pair)


def test_dropout_depends_on_the_seed_alone(qkv):
    run = lambda seed: phasor.attention(*qkv, dropout=0.4, seed=seed, return_weights=True)  # noqa: E731
    out, weights = run(5)
    assert np.array_equal(out, run(5)[0])
    assert not np.array_equal(out, run(6)[0])
    full = phasor.attention(*qkv, return_weights=True)[1]
    kept = weights != 0
    assert 0.5 < kept.mean() < 0.7
    np.testing.assert_allclose(weights[kept], full[kept] / 0.6, rtol=1e-5)
    values = np.repeat(np.float64(qkv[2]), H // G, axis=1)
    np.testing.assert_allclose(out, np.float64(weights) @ values, atol=4e-6)
    assert np.array_equal(run(2**64 - 1)[0], run(2**64 - 1)[0])
