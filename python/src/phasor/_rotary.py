"""Rotary position embedding: settings, tables, rotation."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from phasor import _phasor
from phasor._arrays import NumpyKind, check_tensors, kind_of, shape_of
from phasor._errors import with_function_name
from phasor._numbers import real, whole

Pairing = Literal["half", "adjacent"]
ArrayT = TypeVar("ArrayT")


@dataclass(frozen=True, eq=False)
class RotaryTable:
    """Cosines and sines of every token and pair, and which channels form a pair.

    cos, sin: [T, R/2], or [B, T, R/2] where sequences have positions of their own, or [B or 1, H, T, R/2] where heads have
        angles of their own; float32. The attention factor of YaRN and LongRoPE is already multiplied in.
    pairing: "half" pairs channel i with i + R/2, "adjacent" 2i with 2i + 1.
    """

    cos: Any
    sin: Any
    pairing: Pairing


@with_function_name
def rotary_table(cos: Any, sin: Any, *, pairing: Pairing) -> RotaryTable:
    """A RotaryTable from given arrays cos and sin, float32 [T, R/2], [B, T, R/2] or [B, H, T, R/2], which are not copied."""
    for name, array in (("cos", cos), ("sin", sin)):
        kind_of(array, name)
        if not str(array.dtype).endswith("float32"):
            raise TypeError(f"{name}: {array.dtype}, expected float32")
        if len(array.shape) not in (2, 3, 4):
            raise ValueError(f"{name}: shape {list(array.shape)}, expected [T, R/2], [B, T, R/2] or [B, H, T, R/2]")
    if tuple(cos.shape) != tuple(sin.shape):
        raise ValueError(f"sin: shape {list(sin.shape)}, expected {list(cos.shape)} as cos has")
    _check_pairing(pairing)
    return RotaryTable(cos, sin, pairing)


def _check_pairing(pairing: str) -> None:
    if pairing not in ("half", "adjacent"):
        raise ValueError(f'pairing: {pairing!r}, expected "half" or "adjacent"')


class Rope:
    """Rotary position embedding (arXiv 2104.09864) and its context extensions.

        angle(position, i) = position * inv_freq[i],   inv_freq[i] = theta^(-2i/R),   i = 0 .. R/2 - 1
        (a, b) -> (a cos - b sin, a sin + b cos)       for every pair (a, b) of a head's R rotated channels

    head_dim: channels of a head, D.
    theta: the base of the frequencies.
    scaling: None, or a dict under Hugging Face's keys: {"rope_type": "yarn", "factor": 4.0, ...}. Types: default, linear,
        ntk, dynamic, yarn, longrope, llama3, proportional.
    max_position_embeddings: the length the model was made for; dynamic and longrope need it.
    rotary_dim: R, the first channels of a head; all of them when None.
    pairing: "half" pairs channel i with i + R/2 (Hugging Face's Llama, Qwen, Mistral), "adjacent" 2i with 2i + 1 (GPT-J,
        Meta's LLaMA).
    """

    @with_function_name
    def __init__(
        self,
        head_dim: int,
        *,
        theta: float = 10000.0,
        scaling: Mapping[str, Any] | None = None,
        max_position_embeddings: int | None = None,
        rotary_dim: int | None = None,
        pairing: Pairing = "half",
    ) -> None:
        rotary_dim = None if rotary_dim is None else whole(rotary_dim, "rotary_dim")
        if rotary_dim is not None and rotary_dim < 2:
            raise ValueError(f"rotary_dim: {rotary_dim}, expected an even number of at least 2")
        arguments = (
            whole(head_dim, "head_dim"),
            real(theta, "theta"),
            _to_json(scaling or {}, "scaling"),
            whole(max_position_embeddings or 0, "max_position_embeddings"),
            rotary_dim or 0,
            pairing,
        )
        self._source: tuple[str, tuple[Any, ...]] = ("make", arguments)
        self._config = _phasor.RopeConfig.make(*arguments)

    @classmethod
    def from_config(cls, config: Any, layer_type: str | None = None) -> Rope:
        """The rotary settings of a Hugging Face model.

        config: a dict as in config.json, a path to such a file or to the folder it is in, or a transformers config.
        layer_type: which layers, where they differ ("full_attention", "sliding_attention").

        Old keys and new are read, with the defaults of each model type. What is missing or wrong is a ValueError that
        names the key.
        """
        if isinstance(config, (str, os.PathLike)):
            path = os.path.join(config, "config.json") if os.path.isdir(config) else config
            with open(path, encoding="utf-8") as file:
                text = file.read()
        else:
            settings = config if isinstance(config, Mapping) else _to_dict(config)
            text = _to_json(settings, "config")
        return cls._restore("read", (text, layer_type or ""))

    @classmethod
    def _restore(cls, maker: str, arguments: tuple[Any, ...]) -> Rope:
        rope = cls.__new__(cls)
        rope._source = (maker, arguments)
        rope._config = getattr(_phasor.RopeConfig, maker)(*arguments)
        return rope

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self)._restore, self._source)

    def __repr__(self) -> str:
        return (
            f"Rope(head_dim={self.head_dim}, theta={self.theta:g}, type={self.type!r}, "
            f"rotary_dim={self.rotary_dim}, pairing={self.pairing!r})"
        )

    @property
    def head_dim(self) -> int:
        """Channels of a head, D."""
        return self._config.head_dim

    @property
    def theta(self) -> float:
        """The base of the frequencies."""
        return self._config.theta

    @property
    def type(self) -> str:
        """The type of the scaling: "default", "yarn", ..."""
        return self._config.scaling_type

    @property
    def rotary_dim(self) -> int:
        """R, the rotated channels of a head."""
        return self._config.rotary_dim

    @property
    def pairing(self) -> Pairing:
        """ "half" or "adjacent"."""
        return self._config.pairing

    @property
    def axes(self) -> int:
        """How many axes a position has: 1, 2 (images) or 3 (M-RoPE)."""
        return self._config.axes

    @property
    def inv_freq(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Radians per position of each pair, [R/2] float64; for dynamic and longrope those of the original length."""
        return self._config.frequencies(0)[0]

    @with_function_name
    def inv_freq_at(self, length: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """inv_freq for a context of `length` tokens: only dynamic and longrope look at it."""
        return self._config.frequencies(whole(length, "length"))[0]

    @property
    def attention_scaling(self) -> float:
        """What cos and sin are multiplied by: 1, but for YaRN and LongRoPE."""
        return self._config.frequencies(0)[1]

    @property
    def scale(self) -> float:
        """What q.k is to be multiplied by: 1/sqrt(D), times DeepSeek's correction where the config asks for it."""
        return self._config.score_scale(self.head_dim)

    @with_function_name
    def table(self, positions: Any, *, length: int | None = None) -> RotaryTable:
        """cos and sin of tokens at `positions`.

        positions: whole numbers [T] or [B, T], as an array or list; with more than one axis [axes, T] or [axes, B, T].
        length: of the context, for dynamic and longrope; the largest position + 1 when None.

        Gives a RotaryTable with cos and sin [..., R/2], float32, of the kind of `positions` (NumPy for a list). Angles are
        computed in double.
        """
        kind = kind_of(positions, "positions") if hasattr(positions, "shape") else NumpyKind()
        numbers = np.asarray(positions)
        if numbers.dtype.kind not in "iu" and numbers.size > 0:
            raise TypeError(f"positions: {numbers.dtype}, expected whole numbers")
        rank = numbers.ndim - (self.axes > 1)
        if rank < 0 or rank > 2:
            raise ValueError(
                f"positions: shape {list(numbers.shape)}, expected [T] or [B, T]{', after the axes' if self.axes > 1 else ''}"
            )
        outer = numbers.shape[numbers.ndim - rank :]
        axes = numbers.shape[0] if self.axes > 1 else 1
        shape = (axes, *((1, 1, *outer)[len(outer) :]))
        spread = np.ascontiguousarray(numbers, dtype=np.int64).reshape(shape)
        length = None if length is None else whole(length, "length")
        cos, sin = (half.reshape(*outer, half.shape[-1]) for half in self._config.table(spread, length))
        return RotaryTable(kind.from_numpy(cos), kind.from_numpy(sin), self.pairing)


def _to_dict(config: Any) -> Mapping[str, Any]:
    to_dict = getattr(config, "to_dict", None)
    if to_dict is None:
        raise TypeError(
            f"[from_config] config: {type(config).__name__}, expected a dict, a path or a transformers config"
        )
    settings: Mapping[str, Any] = to_dict()
    return settings


def _to_json(settings: Mapping[str, Any], name: str) -> str:
    if not isinstance(settings, Mapping):
        raise TypeError(f"{name}: {type(settings).__name__}, expected a dict")
    try:
        return json.dumps(dict(settings), allow_nan=False, default=str)
    except ValueError as error:
        raise ValueError(f"{name}: {error}, expected what a config.json can hold") from None


def ntk_aware_rope(
    head_dim: int,
    factor: float,
    *,
    theta: float = 10000.0,
    rotary_dim: int | None = None,
    pairing: Pairing = "half",
) -> Rope:
    """A Rope whose base is stretched for a context `factor` times as long: theta * factor^(R/(R-2)).

    The fastest pair keeps its frequency, the slowest turns `factor` times as slowly (bloc97's NTK-aware scaling).
    """
    return Rope(
        head_dim,
        theta=theta,
        scaling={"rope_type": "ntk", "factor": factor},
        rotary_dim=rotary_dim,
        pairing=pairing,
    )


@with_function_name
def precompute_freqs_cis(
    dim: int, end: int, theta: float = 10000.0
) -> np.ndarray[Any, np.dtype[np.complex64]]:
    """LLaMA's complex form for adjacent pairs: entry (t, i) is exp(j t theta^(-2i/dim)), [end, dim/2] complex64."""
    return _phasor.precompute_freqs_cis(whole(dim, "dim"), whole(end, "end"), real(theta, "theta"))


@with_function_name
def apply_rotary(x: ArrayT, table: RotaryTable, *, transpose: bool = False, out: ArrayT | None = None) -> ArrayT:
    """Turns the channel pairs of x: (a, b) -> (a cos - b sin, a sin + b cos).

    x: [B, H, T, D], float32, float16 or bfloat16, any outer strides. Its first R channels are rotated, the others copied.
    table: of at least T tokens, for B sequences or one.
    transpose: the same with the sine negated: the gradient, and the inverse where the attention factor is 1.
    out: an array like x for the result, also x itself (in place); a new one when None.

    Nothing is copied. Arithmetic is float32.
    """
    kind = kind_of(x, "x")
    if not isinstance(table, RotaryTable):
        raise TypeError(f"table: {type(table).__name__}, expected a RotaryTable")
    check_tensors({"table": table.cos, "out": out})
    check_tensors({"table": table.sin})
    result = kind.empty(shape_of(x, "x", 4), x) if out is None else out
    _phasor.apply_rotary(x, table, result, transpose=transpose)
    return kind.finish(result) if out is None else out


@with_function_name
def convert_pairing(weight: ArrayT, heads: int, *, to: Pairing, rotary_dim: int | None = None) -> ArrayT:
    """A copy of the rows of a q or k projection, from the other pairing, in pairing `to`.

    weight: [heads * D, ...]: a projection's weight [heads * D, C] or bias [heads * D]; with heads = 1 also the weight [D]
        of a norm per head. Any element type.
    rotary_dim: how many channels of a head move, the first ones; all when None.

    A half-split rotation of permuted channels is the adjacent rotation of the original ones, so converting the projections
    of q and k (and their biases and norms) converts a model.
    """
    kind = kind_of(weight, "weight")
    heads = whole(heads, "heads")
    rows = weight.shape[0] if len(weight.shape) > 0 else 0  # type: ignore[attr-defined]
    if heads < 1 or rows == 0 or rows % heads != 0:
        raise ValueError(f"heads: {heads}, expected a divisor of the {rows} rows of weight")
    head_dim = rows // heads
    permutation = np.asarray(_phasor.pairing_permutation(to, head_dim, whole(rotary_dim or 0, "rotary_dim")))
    order = np.arange(heads)[:, None] * head_dim + permutation
    return kind.rows(weight, order.reshape(-1))  # type: ignore[no-any-return]
