"""From the options of the public functions to those of the C++ functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from phasor._arrays import is_boolean
from phasor._biases import RelativeBias, alibi_table
from phasor._rotary import RotaryTable

if TYPE_CHECKING:
    from phasor import _phasor


class PlacedOptions(TypedDict, total=False):
    """What all attention functions take: where tokens stand, what they see, what is added to scores."""

    causal: bool
    window: int | tuple[int | None, int | None] | None
    query_offset: Any
    key_lengths: Any
    cumulative_lengths: Any
    mask: Any
    key_bias: Any
    relative_bias: Any
    alibi_slopes: Any
    q_rotary: RotaryTable | None
    k_rotary: RotaryTable | None
    dropout: float
    seed: int | None


class AttentionOptions(PlacedOptions, total=False):
    """The options of phasor.attention."""

    scale: float | None
    softcap: float
    sinks: Any


def low_level(
    queries: int,
    keys: int,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    query_offset: Any = None,
    key_lengths: Any = None,
    cumulative_lengths: Any = None,
    mask: Any = None,
    key_bias: Any = None,
    relative_bias: Any = None,
    alibi_slopes: Any = None,
    q_rotary: RotaryTable | None = None,
    k_rotary: RotaryTable | None = None,
    softcap: float = 0.0,
    sinks: Any = None,
    dropout: float = 0.0,
    seed: int | None = None,
) -> _phasor.Options:
    """Only what is given goes on: the C++ side has the defaults."""
    options: _phasor.Options = {}
    if scale is not None:
        options["scale"] = scale
    if causal:
        options["causal"] = True
    if window is not None:
        options["window_left"], options["window_right"] = _window(window)
    if query_offset is not None:
        options["query_offsets"] = query_offset
    if key_lengths is not None:
        options["key_lengths"] = key_lengths
    if cumulative_lengths is not None:
        options["query_starts"], options["key_starts"] = _starts(cumulative_lengths)
    if mask is not None:
        options["visible" if is_boolean(mask) else "mask"] = mask
    if key_bias is not None:
        options["key_bias"] = key_bias
    if relative_bias is not None or alibi_slopes is not None:
        bias = _bias(relative_bias, alibi_slopes, options, queries, keys)
        options["relative_bias"], options["first_distance"] = bias
    if q_rotary is not None or k_rotary is not None:
        _add_rotation(options, q_rotary, k_rotary)
    if softcap:
        options["softcap"] = softcap
    if sinks is not None:
        options["sinks"] = sinks
    if dropout:
        if seed is None:
            raise ValueError(f"seed: None beside dropout {dropout}, expected a whole number: results depend on it alone")
        options["dropout"], options["seed"] = dropout, seed
    return options


def _window(window: Any) -> tuple[int | None, int | None]:
    if isinstance(window, Sequence):
        if len(window) != 2:
            raise ValueError(f"window: {window!r}, expected (left, right)")
        return window[0], window[1]
    return window, None


def _starts(cumulative_lengths: Any) -> tuple[Any, Any]:
    """One list for queries and keys alike, or a tuple of two."""
    if isinstance(cumulative_lengths, tuple) and len(cumulative_lengths) == 2:
        if not isinstance(cumulative_lengths[0], int):
            return cumulative_lengths
    return cumulative_lengths, cumulative_lengths


def _bias(
    relative_bias: Any, alibi_slopes: Any, options: _phasor.Options, queries: int, keys: int
) -> RelativeBias:
    if relative_bias is None:
        return alibi_table(alibi_slopes, *_distances(options, queries, keys))
    if alibi_slopes is not None:
        raise ValueError("alibi_slopes: given beside relative_bias, expected one of them")
    if isinstance(relative_bias, RelativeBias):
        return relative_bias
    if isinstance(relative_bias, tuple):
        if len(relative_bias) != 2:
            raise ValueError(f"relative_bias: a tuple of {len(relative_bias)}, expected (table, first_distance)")
        return RelativeBias(*relative_bias)
    shape: tuple[int, ...] = tuple(getattr(relative_bias, "shape", ()))
    if len(shape) != 2 or shape[1] % 2 == 0:
        raise ValueError(
            f"relative_bias: shape {list(shape)}, expected [H, 2 n + 1] for the distances -n .. n, or a RelativeBias"
        )
    return RelativeBias(relative_bias, -(shape[1] // 2))


def _distances(options: _phasor.Options, queries: int, keys: int) -> tuple[int, int]:
    """First and last distance, key minus query, that any query of the call may see."""
    lengths = [(queries, keys)]
    if "query_starts" in options:
        query_starts, key_starts = np.asarray(options["query_starts"]), np.asarray(options["key_starts"])
        lengths = list(zip(np.diff(query_starts).tolist(), np.diff(key_starts).tolist()))
    given: Any = options.get("query_offsets")
    if given is None:
        first = min((1 - s for _, s in lengths), default=0)
        last = max((t - 1 for t, _ in lengths), default=0)
    else:
        offsets = np.atleast_1d(np.asarray(given)).tolist()
        first = min(1 - offset - t for offset in offsets for t, _ in lengths)
        last = max(s - 1 - offset for offset in offsets for _, s in lengths)
    left = options.get("window_left")
    if left is not None:
        first = max(first, 1 - left)
    if options.get("causal"):
        last = min(last, 0)
    return first, max(first, last)


def _add_rotation(options: _phasor.Options, q_rotary: Any, k_rotary: Any) -> None:
    for name, table in (("q_rotary", q_rotary), ("k_rotary", k_rotary)):
        if table is not None and not isinstance(table, RotaryTable):
            raise TypeError(f"{name}: {type(table).__name__}, expected a RotaryTable")
    if q_rotary is not None and k_rotary is not None and q_rotary.pairing != k_rotary.pairing:
        raise ValueError(f"k_rotary: pairing {k_rotary.pairing}, expected {q_rotary.pairing} as q_rotary has")
    if q_rotary is not None:
        options["q_cos"], options["q_sin"], options["pairing"] = q_rotary.cos, q_rotary.sin, q_rotary.pairing
    if k_rotary is not None:
        options["k_cos"], options["k_sin"], options["pairing"] = k_rotary.cos, k_rotary.sin, k_rotary.pairing
