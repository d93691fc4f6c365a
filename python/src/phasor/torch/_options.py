"""The options of attention as arguments of torch operators: tensors, numbers and texts, in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from phasor import _options
from phasor._biases import RelativeBias
from phasor._numbers import real
from phasor._rotary import RotaryTable
from phasor.torch._causal_bias import corner_of, visible_keys
from phasor.torch._inputs import check_memory

if TYPE_CHECKING:
    from phasor import _phasor

# Each line of the class below, as torch's schema language has it.
SCHEMA = (
    "Tensor? mask, Tensor? key_bias, Tensor? relative_bias, Tensor? alibi_slopes, Tensor? sinks, "
    "Tensor? q_cos, Tensor? q_sin, Tensor? k_cos, Tensor? k_sin, "
    "Tensor? query_offset, Tensor? key_lengths, Tensor? query_starts, Tensor? key_starts, Tensor? seed, "
    "float? scale, bool causal, SymInt? window_left, SymInt? window_right, SymInt first_distance, str pairing, "
    "float softcap, float dropout"
)
TENSORS = 14  # the first fields are tensors
FLOATING = 9  # the first of them a derivative could be asked by; rotary tables have none and say so
# Of these there are gradients: the first fields.
LEARNED = ("mask", "key_bias", "relative_bias", "alibi_slopes", "sinks")


class Options(NamedTuple):
    """What the operators take after q, k and v."""

    mask: torch.Tensor | None
    key_bias: torch.Tensor | None
    relative_bias: torch.Tensor | None
    alibi_slopes: torch.Tensor | None
    sinks: torch.Tensor | None
    q_cos: torch.Tensor | None
    q_sin: torch.Tensor | None
    k_cos: torch.Tensor | None
    k_sin: torch.Tensor | None
    query_offset: torch.Tensor | None
    key_lengths: torch.Tensor | None
    query_starts: torch.Tensor | None
    key_starts: torch.Tensor | None
    seed: torch.Tensor | None  # one number: torch.compile cannot draw it as a number
    scale: float | None
    causal: bool
    window_left: int | None
    window_right: int | None
    first_distance: int
    pairing: str
    softcap: float
    dropout: float

    def lowered(self, shape: Sequence[int], keys: int) -> _phasor.Options:
        """As the C++ functions take them. Rows that are not contiguous are copied. shape: of q."""
        pairing: Any = self.pairing
        bounded = self.window_left is not None or self.window_right is not None
        return _options.low_level(
            shape,
            keys,
            scale=self.scale,
            causal=self.causal,
            window=(self.window_left, self.window_right) if bounded else None,
            query_offset=self.query_offset,
            key_lengths=self.key_lengths,
            cumulative_lengths=None if self.query_starts is None else (self.query_starts, self.key_starts),
            mask=with_contiguous_rows(self.mask),
            key_bias=with_contiguous_rows(self.key_bias),
            relative_bias=None
            if self.relative_bias is None
            else RelativeBias(with_contiguous_rows(self.relative_bias), self.first_distance),
            alibi_slopes=None if self.alibi_slopes is None else self.alibi_slopes.detach(),
            q_rotary=None if self.q_cos is None else RotaryTable(self.q_cos, self.q_sin, pairing),
            k_rotary=None if self.k_cos is None else RotaryTable(self.k_cos, self.k_sin, pairing),
            softcap=self.softcap,
            sinks=with_contiguous_rows(self.sinks),
            dropout=self.dropout,
            seed=None if self.seed is None else int(self.seed) % 2**64,
        )


class Saved:
    """Options in the context of an autograd function: tensors where torch wants to have them, the rest beside them."""

    def __init__(self, ctx: Any, tensors: tuple[torch.Tensor, ...], options: tuple[Any, ...]) -> None:
        self._first, self._numbers = len(tensors), options[TENSORS:]
        self._given = [i for i in range(TENSORS) if options[i] is not None]
        ctx.save_for_backward(*tensors, *[options[i] for i in self._given])

    def restore(self, saved: tuple[torch.Tensor, ...]) -> tuple[tuple[torch.Tensor, ...], tuple[Any, ...]]:
        """The tensors and the options, from ctx.saved_tensors."""
        given: list[torch.Tensor | None] = [None] * TENSORS
        for i, tensor in zip(self._given, saved[self._first :]):
            given[i] = tensor
        return saved[: self._first], (*given, *self._numbers)


def pack(
    tokens: tuple[int, int],
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    query_offset: Any = None,
    key_lengths: Any = None,
    cumulative_lengths: Any = None,
    mask: torch.Tensor | None = None,
    key_bias: torch.Tensor | None = None,
    relative_bias: Any = None,
    alibi_slopes: torch.Tensor | None = None,
    q_rotary: RotaryTable | None = None,
    k_rotary: RotaryTable | None = None,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    wide: bool = False,
) -> Options:
    """From the options of the public functions. tokens: T and S; wide: for float64, which biases may then be."""
    corner = corner_of("mask", mask, tokens)
    if corner is not None:
        if corner != "upper left" and query_offset is None and cumulative_lengths is None:
            mask, causal = None, True
        else:
            mask = visible_keys(corner, tokens)
    left = right = query_starts = key_starts = None
    first_distance = 0
    if window is not None:
        left, right = _options._window(window)
    if cumulative_lengths is not None:
        starts = _options._starts(cumulative_lengths)
        query_starts, key_starts = (_whole_numbers("cumulative_lengths", x) for x in starts)
    if relative_bias is not None:
        if alibi_slopes is not None:
            raise ValueError("alibi_slopes: given beside relative_bias, expected one of them")
        relative_bias, first_distance = _options.relative_table(relative_bias)
    q_cos, q_sin = rotary_tensors("q_rotary", q_rotary)
    k_cos, k_sin = rotary_tensors("k_rotary", k_rotary)
    pairing = ""
    if q_rotary is not None:
        pairing = q_rotary.pairing
    if k_rotary is not None:
        if pairing and k_rotary.pairing != pairing:
            raise ValueError(f"k_rotary: pairing {k_rotary.pairing}, expected {pairing} as q_rotary has")
        pairing = k_rotary.pairing
    return Options(
        None if mask is None else _added("mask", mask, wide),
        None if key_bias is None else _added("key_bias", key_bias, wide),
        None if relative_bias is None else _added("relative_bias", relative_bias, wide),
        None if alibi_slopes is None else _added("alibi_slopes", alibi_slopes, wide),
        None if sinks is None else _added("sinks", sinks, wide),
        q_cos,
        q_sin,
        k_cos,
        k_sin,
        None if query_offset is None else _whole_numbers("query_offset", query_offset),
        None if key_lengths is None else _whole_numbers("key_lengths", key_lengths),
        query_starts,
        key_starts,
        _drawn(seed) if dropout else None,
        None if scale is None else real(scale, "scale"),
        bool(causal),
        left,
        right,
        first_distance,
        pairing,
        real(softcap, "softcap"),
        real(dropout, "dropout"),
    )


def with_contiguous_rows(tensor: Any) -> Any:
    """The tensor itself, or a copy where its last dimension is not contiguous (an expanded gradient, x.mT)."""
    if tensor is None or tensor.dim() == 0 or tensor.stride(-1) == 1 or tensor.shape[-1] == 1:
        return tensor
    return tensor.contiguous()


def _added(name: str, tensor: Any, wide: bool) -> torch.Tensor:
    """What is added to scores is float32; the half types are cast. Tables that phasor made may be NumPy's."""
    if isinstance(tensor, np.ndarray) and name in ("relative_bias", "alibi_slopes"):
        tensor = torch.from_numpy(tensor)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: {type(tensor).__name__}, expected a torch.Tensor")
    check_memory(name, tensor)
    if tensor.dtype is torch.float32 or (tensor.dtype is torch.bool and name == "mask"):
        return tensor
    if wide and tensor.dtype is torch.float64:
        return tensor
    if tensor.dtype is torch.bfloat16 or tensor.dtype is torch.float16:
        return tensor.float()
    kinds = "bool or float32" if name == "mask" else "float32"
    raise TypeError(f"{name}: {str(tensor.dtype).removeprefix('torch.')}, expected {kinds}")


def rotary_tensors(name: str, table: RotaryTable | None) -> tuple[Any, Any]:
    """cos and sin of a table: torch's, or NumPy's memory seen by torch."""
    if table is None:
        return None, None
    if not isinstance(table, RotaryTable):
        raise TypeError(f"{name}: {type(table).__name__}, expected a RotaryTable")
    cos, sin = (x if isinstance(x, torch.Tensor) else torch.from_numpy(x) for x in (table.cos, table.sin))
    check_memory(name, cos)
    check_memory(name, sin)
    if cos.requires_grad or sin.requires_grad:
        raise ValueError(f"{name}: requires a gradient, which is not computed; expected cos.detach(), sin.detach()")
    return cos, sin


def _whole_numbers(name: str, numbers: Any) -> torch.Tensor:
    if isinstance(numbers, torch.Tensor):
        check_memory(name, numbers)
        return numbers
    if isinstance(numbers, (int, torch.SymInt)):
        return torch.full((1,), numbers, dtype=torch.int64, device="cpu")
    try:
        return torch.as_tensor(numbers, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name}: {numbers!r}, expected whole numbers") from None


def _drawn(seed: Any) -> torch.Tensor:
    """A given seed, or one from torch's generator."""
    if seed is None:
        return torch.randint(2**63 - 1, (1,), device="cpu")
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise TypeError(f"seed: {seed!r}, expected a whole number of 64 bits, 0 or more")
    return torch.full((1,), seed - 2**64 if seed >= 2**63 else seed, dtype=torch.int64, device="cpu")
