"""Keys and values of the tokens read and written so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from phasor import _phasor
from phasor._arrays import check_tensors, kind_of, shape_of
from phasor._attention import empty_on_request, results
from phasor._errors import with_function_name
from phasor._numbers import whole
from phasor._options import AttentionOptions, check_options, with_options
from phasor._rotary import RotaryTable

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Cache:
    """What caches with and without pages have in common."""

    _cache: Any
    _pairing: str | None = None  # of the rotated keys

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sequence."""
        lengths: list[int] = self._cache.lengths
        return lengths

    @property
    def dtype(self) -> str:
        dtype: str = self._cache.dtype
        return dtype

    @property
    def key_scales(self) -> Any:
        """Of an int8 cache the factor of each key, float32, shaped as keys without their last dimension; else None."""
        return self._cache.key_scales

    @property
    def value_scales(self) -> Any:
        """The factor of each value, likewise."""
        return self._cache.value_scales

    def _view(self, array: Any) -> Any:
        if self.dtype != "bfloat16":
            return array
        import ml_dtypes  # only here: NumPy has no bfloat16 of its own

        return array.view(ml_dtypes.bfloat16)

    def _append(self, k: Any, v: Any, rotation: RotaryTable | None, counts: Any) -> None:
        check_tensors({"k": k, "v": v, "counts": counts})
        check_options({"rotation": rotation})
        if rotation is not None:
            self._check_pairing(rotation, "rotation")
        self._cache.append(k, v, rotation, counts)
        if rotation is not None:
            self._pairing = rotation.pairing

    def _check_pairing(self, table: RotaryTable, name: str) -> None:
        """q.k of other pairs than the keys were rotated by means nothing. An empty cache has no pairing."""
        pairing = getattr(table, "pairing", self._pairing)  # C++ refuses what is no table
        if self._pairing is not None and pairing != self._pairing and any(self._cache.lengths):
            raise ValueError(f"{name}: pairing {table.pairing}, expected {self._pairing} as the keys of the cache have")

    def _attention(self, q: Any, return_lse: bool, return_weights: bool, options: AttentionOptions) -> Any:
        kind = kind_of(q, "q")
        rows = shape_of(q, "q", 4)[:3]
        check_options(options)
        rotary = options.get("q_rotary")
        if rotary is not None:
            self._check_pairing(rotary, "q_rotary")
        out = kind.empty((*rows, self._cache.value_channels), q)
        keys = max(self._cache.lengths, default=0)
        lse, _, weights = empty_on_request(kind, rows, keys, return_lse, False, return_weights)
        self._cache.attention(q, out, lse, weights, **options)
        return results(kind, out, lse, weights)

    def clear(self) -> None:
        """Forgets everything."""
        self._cache.clear()


def checked(value_channels: int | None, dtype: Any, keys: Any) -> tuple[int, str, bool]:
    """Arguments of both kinds, as C++ takes them."""
    if keys not in ("rotated", "unrotated"):
        raise ValueError(f'keys: {keys!r}, expected "rotated" or "unrotated"')
    value_channels = None if value_channels is None else whole(value_channels, "value_channels")
    if value_channels is not None and value_channels < 1:  # 0 is C++'s None
        raise ValueError(f"value_channels: {value_channels}, expected at least 1")
    if not isinstance(dtype, str):
        raise TypeError(f'dtype: {dtype!r}, expected "float32", "float16", "bfloat16" or "int8"')
    return value_channels or 0, dtype, keys == "rotated"


class KVCache(Cache):
    """Keys and values of B sequences, so that a new token costs one pass over them.

        cache = phasor.KVCache(batch=1, key_heads=8, capacity=4096, channels=128, dtype="bfloat16")
        cache.append(k, v, table)                                  # table: the rotation of the new tokens
        out = cache.attention(q, causal=True, q_rotary=table)

    batch, key_heads: B and G.
    capacity: tokens of a sequence. All memory is taken at once: B * G * capacity * (D + E) elements, and for
        int8 two floats more for each token and head.
    channels, value_channels: D of keys and E of values (D when None).
    dtype: "float32", "float16", "bfloat16" or "int8". Queries may be of any type. "int8" keeps a key or a value as whole
        numbers n and one float, its scale = max(abs(x)) / 127: x is about scale * n, off by scale / 2 at most.
    keys: "rotated" keys are rotated once, when appended. "unrotated" ones are rotated whenever they are read, by k_rotary
        with a row for each token of the cache: for dynamic NTK and LongRoPE, whose angles change as the text grows.
    """

    @with_function_name
    def __init__(
        self,
        batch: int,
        key_heads: int,
        capacity: int,
        channels: int,
        *,
        value_channels: int | None = None,
        dtype: str = "float32",
        keys: Literal["rotated", "unrotated"] = "rotated",
    ) -> None:
        self._cache = _phasor.KVCache(
            whole(batch, "batch"),
            whole(key_heads, "key_heads"),
            whole(capacity, "capacity"),
            whole(channels, "channels"),
            *checked(value_channels, dtype, keys),
        )

    @property
    def capacity(self) -> int:
        """The most tokens that a sequence can have."""
        capacity: int = self._cache.capacity
        return capacity

    @property
    def keys(self) -> Any:
        """[B, G, S, D] with S the longest length: the cache's own memory, read-only, as a NumPy array (bfloat16 needs
        ml_dtypes). Rows of a shorter sequence past its length mean nothing; later changes show through."""
        return self._view(self._cache.keys)

    @property
    def values(self) -> Any:
        """[B, G, S, E], likewise."""
        return self._view(self._cache.values)

    @with_function_name
    def append(self, k: Any, v: Any, rotation: RotaryTable | None = None, *, counts: Any = None) -> None:
        """Adds tokens: k [B, G, n, D] and v [B, G, n, E] of any of the three types, rounded once, after they are rotated.

        rotation: row i rotates new token i; of one pairing for all tokens of the cache.
        counts: [B]: only counts[b] <= n tokens of sequence b.

        When a sequence has no room left, the ValueError says so and nothing has changed.
        """
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
        """Attention of q [B, H, T, D] to the tokens of the cache, the new ones included: append them first.

        options: those of phasor.attention. Where they say nothing of key_lengths and query_offsets, these follow the
        lengths: the last of T queries is at the last token of its sequence.

        Returns what phasor.attention does. Nothing is copied.
        """
        return self._attention(q, return_lse, return_weights, options)

    @with_function_name
    def truncate(self, b: int, length: int) -> None:
        """Forgets the tokens of sequence b from `length` on."""
        self._cache.truncate(whole(b, "b"), whole(length, "length"))
