"""Keys and values in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from phasor import _phasor
from phasor._arrays import check_tensors, kind_of, shape_of
from phasor._attention import empty_on_request, results
from phasor._errors import with_function_name
from phasor._kv_cache import Cache, checked
from phasor._numbers import whole
from phasor._options import AttentionOptions, check_options, with_options
from phasor._rotary import RotaryTable

if TYPE_CHECKING:
    from typing_extensions import Unpack


@with_options
@with_function_name
def paged_attention(
    q: Any,
    keys: Any,
    values: Any,
    block_table: Any,
    lengths: Any,
    *,
    key_scales: Any = None,
    value_scales: Any = None,
    return_lse: bool = False,
    return_weights: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """Attention to keys and values in pages, which are read in place.

    q: [B, H, T, D]; or [1, H, T, D] with query_starts, the queries of all sequences one after the other.
    keys, values: the pools, [pages, G, page size, D] and [pages, G, page size, E]. Outer strides are free: a pool
        [pages, page size, G, D] is given with its dimensions 1 and 2 exchanged. q may be of another type than they are.
    block_table: [sequences, pages of a sequence], int32 or int64. Page i of a sequence has its tokens from
        i * page size on. Entries past its last token are not read. Sequences may share pages.
    lengths: tokens of each sequence.
    key_scales, value_scales: of pools of int8, [pages, G, page size] of float32: a key is its scale times its numbers.
    options: those of phasor.attention. Where they say nothing of key_lengths and query_offsets, these follow the
        lengths: the last query of a sequence is at its last token. S of masks, biases and k_rotary is the longest
        length. Beside query_starts there is no mask, block_mask, key_bias, k_rotary, dropout or return_weights.

    Returns what phasor.attention does for the same keys without pages, bit by bit.
    """
    arrays = {"q": q, "keys": keys, "values": values, "block_table": block_table}
    check_tensors(arrays | {"key_scales": key_scales, "value_scales": value_scales})
    kind = kind_of(q, "q")
    rows = shape_of(q, "q", 4)[:3]
    check_options(options)
    lengths = [whole(length, "lengths") for length in lengths]
    out = kind.empty((*rows, shape_of(values, "values", 4)[3]), q)
    lse, _, weights = empty_on_request(kind, rows, max(lengths, default=0), return_lse, False, return_weights)
    _phasor.paged_attention(q, keys, values, block_table, lengths, key_scales, value_scales, out, lse, weights, **options)
    return results(kind, out, lse, weights)


class PagedKVCache(Cache):
    """Keys and values of B sequences in pages of one pool: sequences of any lengths share the memory.

        cache = phasor.PagedKVCache(batch=8, key_heads=8, pages=1024, page_size=64, channels=128, dtype="bfloat16")
        cache.append(k, v, table)                                  # takes the pages that it needs
        out = cache.attention(q, causal=True, q_rotary=table)
        cache.truncate(3, 0)                                       # sequence 3 is finished: its pages are free again

    batch, key_heads: B and G.
    pages, page_size: pages of the pool, tokens of a page. All memory is taken at once.
    channels, value_channels, dtype, keys: as of KVCache. Results are the bits of a KVCache.
    """

    @with_function_name
    def __init__(
        self,
        batch: int,
        key_heads: int,
        pages: int,
        page_size: int,
        channels: int,
        *,
        value_channels: int | None = None,
        dtype: str = "float32",
        keys: Literal["rotated", "unrotated"] = "rotated",
    ) -> None:
        self._cache = _phasor.PagedKVCache(
            whole(batch, "batch"),
            whole(key_heads, "key_heads"),
            whole(pages, "pages"),
            whole(page_size, "page_size"),
            whole(channels, "channels"),
            *checked(value_channels, dtype, keys),
        )

    @property
    def pages(self) -> int:
        """Pages of the pool."""
        pages: int = self._cache.pages
        return pages

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        size: int = self._cache.page_size
        return size

    @property
    def free_pages(self) -> int:
        """Pages that no sequence has."""
        free: int = self._cache.free_pages
        return free

    @property
    def block_table(self) -> list[list[int]]:
        """The pages of each sequence; -1 past its last one."""
        table: list[list[int]] = self._cache.block_table
        return table

    @property
    def keys(self) -> Any:
        """The pool [pages, G, page size, D]: the cache's own memory, read-only, as a NumPy array (bfloat16 needs
        ml_dtypes). Later changes show through."""
        return self._view(self._cache.keys)

    @property
    def values(self) -> Any:
        """[pages, G, page size, E], likewise."""
        return self._view(self._cache.values)

    @with_function_name
    def append(self, k: Any, v: Any, rotation: RotaryTable | None = None, *, counts: Any = None) -> None:
        """As KVCache.append. When there are too few free pages, the ValueError says so and nothing has changed."""
        self._append(k, v, rotation, counts)

    @with_options
    @with_function_name
    def attention(
        self,
        q: Any,
        *,
        return_lse: bool = False,
        return_weights: bool = False,
        **options: Unpack[AttentionOptions],
    ) -> Any:
        """As KVCache.attention: q [B, H, T, D], or ragged queries as of phasor.paged_attention."""
        return self._attention(q, return_lse, return_weights, options)

    @with_function_name
    def share(self, source: int, to: int, length: int) -> None:
        """Sequence `to`, which must be empty, gets the first `length` tokens of sequence `source` without a copy. A
        page that both have is copied when one of them appends to it."""
        self._cache.share(whole(source, "source"), whole(to, "to"), whole(length, "length"))

    @with_function_name
    def truncate(self, b: int, length: int) -> None:
        """Forgets the tokens of sequence b from `length` on; pages that no sequence has are free again."""
        self._cache.truncate(whole(b, "b"), whole(length, "length"))
