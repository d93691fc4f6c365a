"""Decoding from a KVCache equals attention to everything at once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import phasor
import pytest

B, H, G, D, E, LENGTH = 2, 6, 2, 16, 8, 9
random = np.random.default_rng(17)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def test_token_by_token():
    q, k, v = normal(B, H, LENGTH, D), normal(B, G, LENGTH, D), normal(B, G, LENGTH, E)
    rope = phasor.Rope(D)
    table = rope.table(np.arange(LENGTH))
    expected = phasor.attention(q, k, v, causal=True, q_rotary=table, k_rotary=table)
    cache = phasor.KVCache(B, G, LENGTH, D, value_channels=E)
    for t in range(LENGTH):
        here = rope.table([t])
        cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1], here)
        out = cache.attention(q[:, :, t : t + 1], causal=True, q_rotary=here)
        np.testing.assert_allclose(out, expected[:, :, t : t + 1], atol=2e-6)
    assert cache.lengths == [LENGTH, LENGTH] and cache.capacity == LENGTH
    np.testing.assert_allclose(cache.keys, phasor.apply_rotary(k, table), atol=1e-6)
    assert np.array_equal(cache.values, v) and not cache.values.flags.writeable


def test_unrotated_keys():
    q, k = normal(B, H, 1, D), normal(B, G, 5, D)
    cache = phasor.KVCache(B, G, 8, D, keys="unrotated")
    cache.append(k, k)
    rope = phasor.Rope(D, pairing="adjacent")
    last, table = rope.table([4]), rope.table(np.arange(5))
    expected = phasor.attention(q, k, k, q_rotary=last, k_rotary=table)
    np.testing.assert_allclose(cache.attention(q, q_rotary=last, k_rotary=table), expected, atol=1e-6)


def test_sequences_of_different_lengths():
    k = normal(B, G, 6, D)
    cache = phasor.KVCache(B, G, 10, D)
    cache.append(k, k, counts=[6, 3])
    assert cache.lengths == [6, 3]
    q = normal(B, H, 1, D)
    slopes = phasor.alibi_slopes(H)
    out, lse, weights = cache.attention(q, alibi_slopes=slopes, return_lse=True, return_weights=True)
    for b, length in enumerate(cache.lengths):
        expected = phasor.attention(q[b : b + 1], k[b : b + 1, :, :length], k[b : b + 1, :, :length], alibi_slopes=slopes)
        np.testing.assert_allclose(out[b : b + 1], expected, atol=1e-6)
    assert lse.shape == (B, H, 1) and weights.shape == (B, H, 1, 6) and not weights[1, :, :, 3:].any()
    cache.truncate(0, 2)
    assert cache.lengths == [2, 3]
    cache.clear()
    assert cache.lengths == [0, 0]


@pytest.mark.parametrize("dtype, numpy_dtype", [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
def test_half_precision(dtype, numpy_dtype):
    q, k = normal(B, H, 1, D), normal(B, G, 6, D)
    cache = phasor.KVCache(B, G, 6, D, dtype=dtype)
    cache.append(k, k)
    rounded = k.astype(numpy_dtype)
    assert cache.dtype == dtype and np.array_equal(cache.keys, rounded) and cache.keys.dtype == numpy_dtype
    wide = cache.attention(q)
    np.testing.assert_allclose(wide, phasor.attention(q, np.float32(rounded), np.float32(rounded)), atol=1e-6)
    assert cache.attention(q.astype(numpy_dtype)).dtype == numpy_dtype


def test_int8():
    q, k, v = normal(B, H, 3, D), normal(B, G, 6, D), normal(B, G, 6, E)
    k[0, 0, 2] = 0
    cache = phasor.KVCache(B, G, 8, D, value_channels=E, dtype="int8")
    cache.append(k, v)
    assert cache.dtype == "int8" and cache.keys.dtype == np.int8 and cache.keys.shape == (B, G, 6, D)
    wide = []
    for rows, numbers, scales in ((k, cache.keys, cache.key_scales), (v, cache.values, cache.value_scales)):
        assert np.array_equal(scales, np.abs(rows).max(-1) / np.float32(127)) and scales.dtype == np.float32
        wide.append(numbers * scales[..., None])
        assert (np.abs(wide[-1] - rows) <= scales[..., None] * 0.50001).all()
    out, lse = cache.attention(q, causal=True, softcap=20.0, return_lse=True)
    expected, expected_lse = phasor.attention(q, *wide, causal=True, softcap=20.0, return_lse=True)
    np.testing.assert_allclose(out, expected, atol=1e-6)
    np.testing.assert_allclose(lse, expected_lse, atol=2e-6)
    np.testing.assert_allclose(out, phasor.attention(q, k, v, causal=True, softcap=20.0), atol=0.05)
    paged = phasor.PagedKVCache(B, G, 4, 4, D, value_channels=E, dtype="int8")
    paged.append(k, v)
    assert np.array_equal(paged.attention(q, causal=True, softcap=20.0), out) and paged.key_scales.shape == (4, G, 4)
    assert phasor.KVCache(B, G, 8, D).key_scales is None and phasor.KVCache(B, G, 8, D).value_scales is None
    for dtype in (np.float16, ml_dtypes.bfloat16):  # queries of any type
        assert cache.attention(q.astype(dtype)).dtype == dtype


def test_views_keep_the_cache_alive():
    cache = phasor.KVCache(1, 1, 4, 2)
    cache.append(np.ones((1, 1, 3, 2), np.float32), np.ones((1, 1, 3, 2), np.float32))
    keys = cache.keys
    del cache
    assert np.array_equal(keys, np.ones((1, 1, 3, 2)))


def test_bad_input_is_named():
    cache = phasor.KVCache(1, 1, 4, 8)
    k = normal(1, 1, 3, 8)
    cache.append(k, k)
    for error, words, call in (
        (ValueError, "capacity", lambda: cache.append(k, k)),
        (ValueError, "k: shape", lambda: cache.append(k[..., :4], k)),
        (TypeError, "v: float64", lambda: cache.append(k, k.astype(np.float64))),
        (TypeError, "rotation: tuple", lambda: cache.append(k, k, (k, k))),
        (TypeError, "q: float64", lambda: cache.attention(k.astype(np.float64))),
        (ValueError, "keys: 'turned'", lambda: phasor.KVCache(1, 1, 4, 8, keys="turned")),
        (TypeError, "dtype: float64", lambda: phasor.KVCache(1, 1, 4, 8, dtype="float64")),
        (ValueError, "capacity", lambda: phasor.KVCache(1, 1, -4, 8)),
        (ValueError, r"\[KVCache\] channels: -1", lambda: phasor.KVCache(1, 1, 4, -1)),
        (ValueError, r"\[KVCache\] value_channels: 0", lambda: phasor.KVCache(1, 1, 4, 8, value_channels=0)),
        (ValueError, r"\[KVCache.append\] rotation: shape", lambda: cache.append(k, k, TABLES["half"][0])),
        (ValueError, r"\[KVCache.append\] rotation: shape", lambda: cache.append(k, k, TABLES["half"][1])),
        (ValueError, r"\[KVCache.append\] counts: 2 numbers", lambda: cache.append(k, k, counts=[1, 1])),
        (ValueError, r"\[KVCache.append\] counts: no numbers", lambda: cache.append(k, k, counts=[])),
        (TypeError, r"\[KVCache.append\] counts: str", lambda: cache.append(k, k, counts="a")),
        (ValueError, r"\[KVCache.truncate\] b: 1, expected", lambda: cache.truncate(1, 0)),
        (ValueError, r"\[KVCache.truncate\] length: 9, expected", lambda: cache.truncate(0, 9)),
        (TypeError, r"\[KVCache.truncate\] b: 'a', expected", lambda: cache.truncate("a", 0)),
        (
            ValueError,
            r"\[KVCache.attention\] query_starts, key_starts: given",
            lambda: cache.attention(k, query_starts=[0, 3]),
        ),
        (ValueError, r"\[KVCache.attention\] k_rotary: given", lambda: cache.attention(k, k_rotary=TABLES["half"][3])),
        (ValueError, r"\[KVCache.attention\] key_lengths: no numbers", lambda: cache.attention(k, key_lengths=[])),
        (TypeError, r"\[KVCache.attention\] is_causal: not an option", lambda: cache.attention(k, is_causal=True)),
    ):
        with pytest.raises(error, match=words):
            call()
    assert cache.lengths == [3]


TABLES = {
    pairing: [phasor.Rope(8, pairing=pairing).table(np.arange(count)) for count in range(4)]
    for pairing in ("half", "adjacent")
}


def test_keys_and_queries_have_one_pairing():
    cache = phasor.KVCache(1, 1, 9, 8)
    k = normal(1, 1, 3, 8)
    half, adjacent = (TABLES[pairing][3] for pairing in ("half", "adjacent"))
    cache.append(k, k, half)
    with pytest.raises(ValueError, match=r"\[KVCache.append\] rotation: pairing adjacent, expected half as the keys"):
        cache.append(k, k, adjacent)
    with pytest.raises(ValueError, match=r"\[KVCache.attention\] q_rotary: pairing adjacent, expected half as the keys"):
        cache.attention(k, q_rotary=adjacent)
    assert cache.lengths == [3]
    cache.append(k, k, half)
    cache.attention(k, q_rotary=half)
    cache.clear()
    cache.append(k, k, adjacent)  # an empty cache may begin anew
    cache.attention(k, q_rotary=adjacent)
    cache.truncate(0, 0)
    cache.append(k, k, half)
