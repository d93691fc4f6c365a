"""From the options of the public functions to those of the C++ functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from phasor._alibi import add_alibi
from phasor._arrays import is_boolean
from phasor._biases import RelativeBias
from phasor._numbers import whole
from phasor._rotary import RotaryTable

if TYPE_CHECKING:
    from phasor import _phasor


class AttentionOptions(TypedDict, total=False):
    """What all attention functions take: where tokens stand, what they see, what becomes of scores."""

    scale: float | None
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
    softcap: float
    sinks: Any
    dropout: float
    seed: int | None


def low_level(
    shape: Sequence[int],
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
    """Only what is given goes on: the C++ side has the defaults.

    shape: of q, [B, H, T, D].
    """
    batch = shape[0]
    options: _phasor.Options = {}
    if scale is not None:
        options["scale"] = scale
    if causal:
        options["causal"] = True
    if window is not None:
        options["window_left"], options["window_right"] = _window(window)
    if query_offset is not None:
        check_not_empty(query_offset, "query_offset", batch)
        options["query_offsets"] = query_offset
    if key_lengths is not None:
        check_not_empty(key_lengths, "key_lengths", batch)
        options["key_lengths"] = key_lengths
    if cumulative_lengths is not None:
        options["query_starts"], options["key_starts"] = _starts(cumulative_lengths)
        check_not_empty(options["query_starts"], "cumulative_lengths", 1)
        check_not_empty(options["key_starts"], "cumulative_lengths", 1)
    if mask is not None:
        options["visible" if is_boolean(mask) else "mask"] = mask
    if key_bias is not None:
        options["key_bias"] = key_bias
    if relative_bias is not None:
        if alibi_slopes is not None:
            raise ValueError("alibi_slopes: given beside relative_bias, expected one of them")
        options["relative_bias"], options["first_distance"] = relative_table(relative_bias)
    elif alibi_slopes is not None:
        add_alibi(options, alibi_slopes, shape, keys)
    if q_rotary is not None or k_rotary is not None:
        _add_rotation(options, q_rotary, k_rotary)
    if softcap is None or dropout is None:
        raise TypeError(f"{'softcap' if softcap is None else 'dropout'}: None, expected a number, 0 for none")
    if softcap:
        options["softcap"] = softcap
    if sinks is not None:
        options["sinks"] = sinks
    if dropout:
        if seed is None:
            raise ValueError(f"seed: None beside dropout {dropout}, expected a whole number: results depend on it alone")
        options["dropout"], options["seed"] = dropout, seed
    return options


def check_not_empty(numbers: Any, name: str, batch: int) -> None:
    """ValueError for a list or array without a number, where there are sequences: C++ takes it for one not given."""
    shape = getattr(numbers, "shape", None)
    empty = isinstance(numbers, (list, tuple)) and not numbers if shape is None else tuple(shape) == (0,)
    if empty and batch > 0:
        raise ValueError(f"{name}: no numbers, expected one for each sequence")


def _window(window: Any) -> tuple[int | None, int | None]:
    left, right = window, None
    if isinstance(window, Sequence) and not isinstance(window, str):
        if len(window) != 2:
            raise ValueError(f"window: {window!r}, expected (left, right)")
        left, right = window
    return (
        left if left is None else whole(left, "window"),
        right if right is None else whole(right, "window"),
    )


def _starts(cumulative_lengths: Any) -> tuple[Any, Any]:
    """One list for queries and keys alike, or a tuple of two."""
    if isinstance(cumulative_lengths, tuple) and len(cumulative_lengths) == 2:
        if not isinstance(cumulative_lengths[0], int):
            return cumulative_lengths
    return cumulative_lengths, cumulative_lengths


def relative_table(relative_bias: Any) -> RelativeBias:
    """All forms that the option relative_bias has."""
    if isinstance(relative_bias, tuple):  # a RelativeBias is one too
        if len(relative_bias) != 2:
            raise ValueError(f"relative_bias: a tuple of {len(relative_bias)}, expected (table, first_distance)")
        return RelativeBias(relative_bias[0], whole(relative_bias[1], "relative_bias"))
    shape: tuple[int, ...] = tuple(getattr(relative_bias, "shape", ()))
    if len(shape) != 2 or shape[1] % 2 == 0:
        raise ValueError(
            f"relative_bias: shape {list(shape)}, expected [H, 2 n + 1] for the distances -n .. n, or a RelativeBias"
        )
    return RelativeBias(relative_bias, -(shape[1] // 2))


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
