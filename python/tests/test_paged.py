"""Attention to pages is attention to the same keys without them, bit by bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import phasor
import pytest

B, H, G, D, E = 2, 6, 2, 16, 8
random = np.random.default_rng(23)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def in_pages(rows, lengths, size):
    """[B, G, S, D] -> a pool [pages, G, size, D] with the pages in random order, and their table."""
    used = [-(-length // size) for length in lengths]
    order = list(random.permutation(sum(used) + 2))
    pool = np.full((len(order), rows.shape[1], size, rows.shape[3]), np.nan, rows.dtype)
    table = np.full((len(lengths), max(used) + 1), -1, np.int32)
    for b, length in enumerate(lengths):
        for i in range(used[b]):
            table[b, i] = order.pop()
            part = rows[b, :, i * size : min((i + 1) * size, length)]
            pool[table[b, i], :, : part.shape[1]] = part
    return pool, table


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("size", [1, 16, 64])
def test_same_bits(size, queries, dtype):
    lengths = [100, 77]
    q = normal(B, H, queries, D)
    k, v = normal(B, G, 100, D).astype(dtype), normal(B, G, 100, E).astype(dtype)
    keys, table = in_pages(k, lengths, size)
    values = np.full((*keys.shape[:3], E), np.nan, dtype)
    for b, length in enumerate(lengths):
        for j in range(length):
            values[table[b, j // size], :, j % size] = v[b, :, j]
    cache = phasor.KVCache(B, G, 100, D, value_channels=E, dtype=np.dtype(dtype).name)
    cache.append(k, v, counts=lengths)
    for options in ({"causal": True}, {"window": 20, "softcap": 5.0}, {"alibi_slopes": phasor.alibi_slopes(H)}):
        expected, lse = cache.attention(q, return_lse=True, **options)
        for block_table in (table, table.astype(np.int64)):
            out, own = phasor.paged_attention(q, keys, values, block_table, lengths, return_lse=True, **options)
            assert np.array_equal(out, expected) and np.array_equal(own, lse)
    # A pool as vLLM has it, [pages, page size, G, D].
    inside = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in (keys, values)]
    assert np.array_equal(phasor.paged_attention(q, *inside, table, lengths), cache.attention(q))


@pytest.mark.parametrize("queries", [1, 40])
def test_same_bits_in_int8(queries):
    """The pools of a cache of int8, and the same given as arrays."""
    q, k, v = normal(B, H, queries, D), normal(B, G, 40, D), normal(B, G, 40, E)
    cache = phasor.PagedKVCache(B, G, 6, 16, D, value_channels=E, dtype="int8")
    cache.append(k, v)
    scales = {"key_scales": cache.key_scales, "value_scales": cache.value_scales}
    table = np.array(cache.block_table)
    for options in ({"causal": True}, {"window": 20, "softcap": 5.0}):
        out, lse = phasor.paged_attention(
            q, cache.keys, cache.values, table, [40, 40], return_lse=True, **scales, **options
        )
        expected, expected_lse = cache.attention(q, return_lse=True, **options)
        assert np.array_equal(out, expected) and np.array_equal(lse, expected_lse) and out.dtype == np.float32
    narrow = phasor.paged_attention(q.astype(np.float16), cache.keys, cache.values, table, [40, 40], **scales)
    assert narrow.dtype == np.float16 and np.abs(narrow - phasor.attention(q, k, v)).max() < 0.05


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"key_scales": None}, ValueError, "key_scales: "),
        ({"value_scales": None}, ValueError, "value_scales: "),
        ({"key_scales": normal(3, 1, 5)}, ValueError, r"key_scales: shape \[3, 1, 5\], expected \[3, 1, 4\]"),
        ({"key_scales": np.ones((3, 1, 4))}, TypeError, "key_scales: float64, expected float32"),
        ({"values": normal(3, 1, 4, 8)}, TypeError, "values: float32, expected int8"),
        (
            {"keys": normal(3, 1, 4, 8), "values": normal(3, 1, 4, 8)},
            ValueError,
            "key_scales: given with pages of floating point, expected none",
        ),
    ],
)
def test_errors_of_int8(change, error, message):
    pool, scales = np.ones((3, 1, 4, 8), np.int8), np.ones((3, 1, 4), np.float32)
    call = {"q": normal(1, 2, 1, 8), "keys": pool, "values": pool, "block_table": np.array([[0, 2]]), "lengths": [7]}
    call |= {"key_scales": scales, "value_scales": scales} | change
    with pytest.raises(error, match=r"\[paged_attention\] " + message):
        phasor.paged_attention(**call)


def test_ragged_queries():
    lengths, counts = [50, 3, 31], [1, 3, 20]
    q, k = normal(1, H, sum(counts), D), normal(3, G, 50, D)
    keys, table = in_pages(k, lengths, 16)
    starts = np.cumsum([0, *counts])
    out = phasor.paged_attention(q, keys, keys, table, lengths, causal=True, query_starts=starts)
    whole = np.concatenate([k[b, :, :length] for b, length in enumerate(lengths)], axis=1)[None]
    expected = phasor.attention(q, whole, whole, causal=True, query_starts=starts, key_starts=np.cumsum([0, *lengths]))
    assert np.array_equal(out, expected)
    with pytest.raises(ValueError, match=r"\[paged_attention\] mask: given with keys in pages and query_starts"):
        phasor.paged_attention(
            q, keys, keys, table, lengths, query_starts=starts, mask=np.zeros((1, 1, 1, 50), np.float32)
        )


def test_cache():
    q, k, v = normal(B, H, 40, D), normal(B, G, 40, D), normal(B, G, 40, E)
    rope = phasor.Rope(D)
    plain = phasor.KVCache(B, G, 40, D, value_channels=E)
    paged = phasor.PagedKVCache(B, G, 6, 16, D, value_channels=E)
    for part in (slice(0, 33), *(slice(i, i + 1) for i in range(33, 40))):
        table = rope.table(np.arange(40)[part])
        for cache in (plain, paged):
            cache.append(k[:, :, part], v[:, :, part], table)
        options = {"causal": True, "q_rotary": table}
        assert np.array_equal(paged.attention(q[:, :, part], **options), plain.attention(q[:, :, part], **options))
    assert paged.lengths == [40, 40] and paged.free_pages == 0 and paged.pages == 6 and paged.page_size == 16
    table = paged.block_table
    assert sorted(sum(table, [])) == list(range(6))
    assert np.array_equal(paged.values[table[1][2], :, 7], v[1, :, 39])
    with pytest.raises(ValueError, match=r"\[PagedKVCache.append\] pages: 0 of 6 are free, expected the 2"):
        paged.append(k[:, :, :9], v[:, :, :9])
    paged.truncate(1, 0)
    paged.share(0, 1, 35)
    assert paged.lengths == [40, 35] and paged.free_pages == 3
    out = paged.attention(q[:, :, :1])
    assert np.array_equal(out[:1], plain.attention(q[:, :, :1])[:1])
    paged.clear()
    assert paged.free_pages == 6 and paged.block_table == [[], []]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"block_table": np.array([[0, 9]])}, "block_table: 9 as page 1 of sequence 0, expected 0 to 2"),
        ({"block_table": np.array([[0, 2**32]])}, "block_table: -1 as page 1"),
        ({"block_table": np.array([[0]], np.int32)}, r"block_table: shape \[1, 1\], expected 2 pages of 4 tokens for the 7"),
        ({"lengths": [7, 7]}, "lengths: 2 numbers, expected 1"),
        ({"keys": normal(3, 1, 4, 6)}, "keys: shape"),
        ({"values": normal(3, 1, 5, 8)}, r"values: shape \[3, 1, 5, 8\], expected \[pages, G, page size\]"),
        ({"key_starts": [0, 7]}, "key_starts: given with keys in pages"),
    ],
)
def test_errors(change, message):
    call = {"q": normal(1, 2, 1, 8), "keys": normal(3, 1, 4, 8), "values": normal(3, 1, 4, 8)}
    call |= {"block_table": np.array([[0, 2]]), "lengths": [7]} | change
    with pytest.raises(ValueError, match=r"\[paged_attention\] " + message):
        phasor.paged_attention(**call)
    with pytest.raises(TypeError, match=r"\[paged_attention\] block_table: "):
        phasor.paged_attention(**(call | {"block_table": np.array([[0.0]])}))
