"""Position encodings that add: a table to token embeddings, or a number per head and distance to scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phasor import _phasor
from phasor._arrays import kind_of, shape_of
from phasor._errors import with_function_name
from phasor._numbers import real, whole

Float32Array = np.ndarray[Any, np.dtype[np.float32]]


class RelativeBias(NamedTuple):
    """A number for each head and distance, added to scores.

        bias(h, distance) = table[h, clamp(distance - first_distance, 0, span - 1)],   distance = key - query position

    table: [H, span], float32.
    first_distance: the distance of the first column.
    """

    table: Any
    first_distance: int

    def dense(self, queries: int, keys: int | None = None, *, query_offset: int | None = None) -> Any:
        """The bias of every query and key, [H, T, S]: a copy, for plots and for other libraries' masks.

        Query i stands at query_offset + i; query_offset is S - T when None.
        """
        keys = queries if keys is None else keys
        offset = keys - queries if query_offset is None else query_offset
        distances = np.arange(keys) - (offset + np.arange(queries))[:, None]
        columns = np.clip(distances - self.first_distance, 0, self.table.shape[1] - 1)
        dense = self.table[:, columns]
        return np.ascontiguousarray(dense) if isinstance(dense, np.ndarray) else dense


@with_function_name
def sinusoidal(length: int, dim: int, *, theta: float = 10000.0) -> Float32Array:
    """The table of Vaswani et al. 2017, [length, dim] float32, to be added to token embeddings.

        PE(position, 2i) = sin(position / theta^(2i/dim)),   PE(position, 2i + 1) = cos(position / theta^(2i/dim))

    dim must be even.
    """
    return _phasor.sinusoidal(whole(length, "length"), whole(dim, "dim"), real(theta, "theta"))


@with_function_name
def alibi_slopes(heads: int) -> Float32Array:
    """ALiBi's slopes, [heads] float32: 2^(-8(h+1)/heads) for a power of two, else as the authors interpolate."""
    return _phasor.alibi_slopes(whole(heads, "heads"))


@with_function_name
def alibi_bias(
    slopes: Any,
    queries: int,
    keys: int | None = None,
    *,
    query_offset: int | None = None,
    causal: bool = False,
) -> RelativeBias:
    """ALiBi (arXiv 2108.12409) as a RelativeBias: -slope[h] * |distance|.

    slopes: an array [H], or the number of heads, for alibi_slopes(heads).
    queries, keys: T and S (T when None): the table covers their distances.
    query_offset: where the first query stands; S - T when None.
    causal: keys after the query are hidden by the mask, so the table ends at distance 0.
    """
    queries = whole(queries, "queries")
    keys = queries if keys is None else whole(keys, "keys")
    if queries < 1 or keys < 1:
        raise ValueError(f"queries: {queries} beside {keys} keys, expected at least 1 of each")
    offset = keys - queries if query_offset is None else whole(query_offset, "query_offset")
    first, last = -(offset + queries - 1), keys - 1 - offset
    given = _phasor.alibi_slopes(slopes) if isinstance(slopes, int) else slopes
    values, last = _slopes(given), 0 if causal else last
    if values.ndim != 1:
        raise ValueError(f"slopes: shape {list(values.shape)}, expected [H]")
    first = min(first, last)
    return RelativeBias(np.multiply.outer(-values, np.abs(np.arange(first, last + 1, dtype=np.float32))), first)


def _slopes(slopes: Any) -> Float32Array:
    """An array of float32, or a list of numbers."""
    if hasattr(slopes, "dtype"):
        kind_of(slopes, "slopes")
        dtype = str(slopes.dtype).rpartition(".")[2]
        if dtype != "float32":
            raise TypeError(f"slopes: {dtype}, expected float32")
        slopes = slopes if hasattr(slopes, "__array__") else np.from_dlpack(slopes)
    try:
        return np.asarray(slopes, dtype=np.float32)
    except (TypeError, ValueError):
        raise TypeError(f"slopes: {type(slopes).__name__}, expected an array or list of numbers") from None


@with_function_name
def t5_bias(weight: Any, *, max_distance: int = 128, bidirectional: bool = True) -> RelativeBias:
    """T5's bias by buckets (arXiv 1910.10683) as a RelativeBias: weight[bucket(distance), h].

    weight: [buckets, H], float32; small distances have a bucket each, larger ones share buckets that widen
        logarithmically up to max_distance.
    bidirectional: False for a decoder: keys after the query share bucket 0.

    The table is a copy of entries of `weight`; made of a torch parameter, it carries the gradient back to it. T5 does not
    divide scores by sqrt(D): use scale=1.
    """
    learned = bool(getattr(weight, "requires_grad", False))
    kind = kind_of(weight.detach() if learned else weight, "weight")
    buckets, _ = shape_of(weight, "weight", 2)
    max_distance = whole(max_distance, "max_distance")
    count = 2 * max_distance + 1 if bidirectional else max_distance + 1
    rows = _phasor.t5_buckets(
        -max_distance, count, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional
    )
    return RelativeBias(kind.contiguous(kind.rows(weight, np.asarray(rows)).T), -max_distance)


class Encoding(NamedTuple):
    """A row of the registry of position encodings."""

    name: str
    formula: str
    acts_on: str
    source: str
    gradient: str


def encodings() -> list[Encoding]:
    """Every position encoding that the library has, with its formula, what it acts on, its source and its gradient."""
    return [Encoding(*row) for row in _phasor.encodings()]
