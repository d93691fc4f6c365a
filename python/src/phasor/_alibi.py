"""ALiBi's slopes among the options of attention: a table by distance, or by pairs of tokens where that is smaller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from phasor._arrays import NumpyKind, kind_of
from phasor._biases import alibi_table
from phasor._numbers import whole

if TYPE_CHECKING:
    from phasor import _phasor

Integers = np.ndarray[Any, np.dtype[np.int64]]
_SMALL_TABLE = 2**16  # distances; a table of these is made whatever the number of tokens


def add_alibi(options: _phasor.Options, slopes: Any, shape: Sequence[int], keys: int) -> None:
    """-slope * |distance| as relative_bias. Query offsets far apart have few distances in a wide span: then as mask.

    shape: of q. options: those of the C++ functions, complete but for this one.
    """
    batch, heads, queries = shape[0], shape[1], shape[2]
    first, last = _span(options, queries, keys)
    if last - first < max(_SMALL_TABLE, batch * queries * keys):
        options["relative_bias"], options["first_distance"] = alibi_table(slopes, first, last, "alibi_slopes", heads)
        return
    minus_slopes = alibi_table(slopes, 1, 1, "alibi_slopes", heads).table
    distances = np.abs(_distances(options, batch, queries, keys)).astype(np.float32)
    bias = minus_slopes[:, :, None] * distances[:, None]
    if "mask" in options:
        given: Any = options["mask"]
        bias = bias + np.asarray(given.detach() if hasattr(given, "detach") else given)
    options["mask"] = bias


def is_by_pairs(options: Mapping[str, Any]) -> bool:
    """Whether the slopes, which are given, are part of the mask."""
    return "relative_bias" not in options


def alibi_gradient(slopes: Any, gradient: Any, options: Mapping[str, Any]) -> Any:
    """The gradient of the slopes from that of their table or mask: -sum of |distance| times it, summed in double."""
    table = np.asarray(gradient, dtype=np.float64)
    if is_by_pairs(options):
        distances = np.abs(_distances(options, table.shape[0], *table.shape[2:])).astype(np.float64)
        result = -np.einsum("bhts,bts->h", table, distances)
    else:
        first = options["first_distance"]
        result = -(table @ np.abs(np.arange(first, first + table.shape[1], dtype=np.float64)))
    kind = kind_of(slopes, "alibi_slopes") if hasattr(slopes, "dtype") else NumpyKind()
    return kind.from_numpy(result.astype(np.float32))


def _span(options: Mapping[str, Any], queries: int, keys: int) -> tuple[int, int]:
    """First and last distance, key minus query, that any query of the call may see."""
    lengths = [(queries, keys)]
    if "query_starts" in options:
        lengths = list(zip(_lengths(options["query_starts"]), _lengths(options["key_starts"])))
    offsets = _offsets(options)
    if offsets is None:
        first = min((1 - s for _, s in lengths), default=0)
        last = max((t - 1 for t, _ in lengths), default=0)
    else:
        first = min((1 - offset - t for offset in offsets for t, _ in lengths), default=0)
        last = max((s - 1 - offset for offset in offsets for _, s in lengths), default=0)
    left = options.get("window_left")
    if left is not None:
        first = max(first, 1 - left)
    if options.get("causal"):
        last = min(last, 0)
    return first, max(first, last)


def _distances(options: Mapping[str, Any], batch: int, queries: int, keys: int) -> Integers:
    """Key minus query of every pair, [B, T, S]; of no meaning where they are not of one sequence."""
    offsets = _offsets(options) or []
    sequences = batch
    i, j = np.arange(queries), np.arange(keys)
    if "query_starts" in options:
        of_queries, of_keys = np.asarray(options["query_starts"]), np.asarray(options["key_starts"])
        sequences = len(of_queries) - 1
        i = i - np.repeat(of_queries[:-1], np.diff(of_queries))
        j = j - np.repeat(of_keys[:-1], np.diff(of_keys))
    if len(offsets) not in (1, sequences):
        raise ValueError(f"query_offset: {len(offsets)} numbers, expected 1 or {sequences}, one for each sequence")
    offset = np.broadcast_to(np.asarray(offsets, dtype=np.int64), sequences)
    if "query_starts" in options:
        return (j - (np.repeat(offset, np.diff(of_queries)) + i)[:, None])[None]
    return j - (offset[:, None] + i)[:, :, None]


def _offsets(options: Mapping[str, Any]) -> list[int] | None:
    given: Any = options.get("query_offsets")
    if given is None:
        return None
    return [whole(offset, "query_offset") for offset in np.atleast_1d(np.asarray(given)).tolist()]


def _lengths(starts: Any) -> list[int]:
    """Of the sequences that begin there."""
    array = np.asarray(starts)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"cumulative_lengths: {starts!r}, expected a list of whole numbers")
    return np.diff(array).tolist()  # type: ignore[no-any-return]
