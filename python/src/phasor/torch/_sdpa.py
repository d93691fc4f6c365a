"""torch.nn.functional.scaled_dot_product_attention, computed by phasor."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import torch
from torch.nn.attention.bias import CausalBias

from phasor._errors import with_function_name
from phasor.torch._attention import attention
from phasor.torch._causal_bias import corner_of
from phasor.torch._inputs import layout_of

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
_TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


# What arguments of phasor.torch.attention are called here.
_NAMES = {"q": "query", "k": "key", "v": "value", "mask": "attn_mask", "dropout": "dropout_p"}


def _with_torchs_errors(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """torch has RuntimeError for a wrong tensor or number, but ValueError beside a CausalBias; TypeError for other types."""
    function = with_function_name(function)

    @functools.wraps(function)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            raise TypeError(_with_torchs_names(str(error))) from None
        except ValueError as error:
            kept = any(isinstance(argument, CausalBias) for argument in (*args, *kwargs.values()))
            raise (ValueError if kept else RuntimeError)(_with_torchs_names(str(error))) from None

    return wrapped


def _with_torchs_names(text: str) -> str:
    """The argument at the beginning of a message, and others in it that are named with their shapes."""
    return re.sub(r"(?<=^\[scaled_dot_product_attention\] )\w+(?=: )|\w+(?= of shape)", _of_torch, text)


def _of_torch(name: re.Match[str]) -> str:
    return _NAMES.get(name[0], name[0])


@_with_torchs_errors
def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """As torch's function of this name, with its signature and rules:

    query: [..., H, T, D]; key: [..., G, S, D]; value: [..., G, S, E], of 2 or more dimensions. G = H, or with
        enable_gqa a divisor of H. Outer dimensions, heads too, are broadcast.
    attn_mask: bool (True attends) or float (added), right-aligned with [..., H, T, S]; a float one gets a gradient. Also
        torch's causal_upper_left(T, S) and causal_lower_right(T, S).
    is_causal: query i sees the keys j <= i, counted from the top left also where T is not S. Not beside attn_mask.
    dropout_p: applied whenever it is not 0, as torch's; the seed comes from torch's generator. 1 gives zeros.

    A query that sees no key gives 0. float64 is computed in plain torch. Not taken, but an error that says so: D or E
    above 512, nested and sparse tensors, other devices than the CPU. Errors are torch's: RuntimeError for a wrong tensor
    or number (ValueError beside a CausalBias), TypeError for other types.
    """
    _check(query, key, value, attn_mask)
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name}: {flag!r}, expected a bool")
    if is_causal and attn_mask is not None:
        # torch's words, which programs and torch's own tests look for.
        raise ValueError(
            "attn_mask: Explicit attn_mask should not be set when is_causal=True"
            if not isinstance(attn_mask, CausalBias)
            else "attn_mask: CausalBias should not be used with causal=True"
        )
    if isinstance(dropout_p, (int, float)) and not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p: rate {dropout_p}, expected 0 to 1")
    corner = corner_of("attn_mask", attn_mask, (query.shape[-2], key.shape[-2]))
    if corner in ("upper left", "both"):
        attn_mask, is_causal = None, True
    outer, tensors = _aligned(query, key, value, enable_gqa)
    drops_all = dropout_p == 1.0
    out: torch.Tensor = attention(
        *tensors,
        scale=scale,
        causal=is_causal,
        query_offsets=0 if is_causal else None,
        mask=None if attn_mask is None else _mask(attn_mask, outer),
        dropout=0.0 if drops_all else dropout_p,
    )
    if drops_all:
        out = torch.nn.functional.dropout(out, 1.0)
    return out if len(outer) == 2 else out.reshape(*outer, *out.shape[2:])


def _check(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> None:
    """What attention would call a TypeError, though a tensor is what it should be."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: {type(x).__name__}, expected a torch.Tensor")
        layout = layout_of(x)
        if layout is not None:
            raise ValueError(f"{name}: {layout}, expected a dense tensor")
        if x.dim() < 2:
            raise ValueError(f"{name}: shape {list(x.shape)}, expected 2 or more dimensions")
        if x.device != query.device or not (x.is_cpu or x.is_meta):
            raise ValueError(f"{name}: on device {x.device}, expected the CPU's memory for all")
        if x.dtype not in _TYPES or (x.dtype is not query.dtype and not torch.is_autocast_enabled("cpu")):
            expected = "float32, bfloat16, float16 or float64" if x is query else f"{_name(query)} as query has"
            raise ValueError(f"{name}: {_name(x)}, expected {expected}")
    if isinstance(mask, torch.Tensor) and not isinstance(mask, CausalBias):
        if mask.device != query.device:
            raise ValueError(f"attn_mask: on device {mask.device}, expected {query.device} as query has")
        if mask.dtype not in (torch.bool, torch.float32, query.dtype) and not torch.is_autocast_enabled("cpu"):
            own = "" if query.dtype is torch.float32 else f", {_name(query)} as query has"
            raise ValueError(f"attn_mask: {_name(mask)}, expected bool{own} or float32")


def _name(x: torch.Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _aligned(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, enable_gqa: bool) -> tuple[torch.Size, Tensors]:
    """The outer dimensions of the result, and query, key and value with four dimensions, all outer ones but heads in
    one. What is broadcast is a view."""
    tensors = (query, key, value)
    if query.dim() == key.dim() == value.dim() == 4 and query.shape[0] == key.shape[0] == value.shape[0]:
        if key.shape[1] == value.shape[1] and (enable_gqa or key.shape[1] == query.shape[1]):
            return query.shape[:2], tensors
    inner = 2
    if min(x.dim() for x in tensors) > 2:
        if enable_gqa and key.shape[-3] != value.shape[-3]:
            key, value = (_repeated(name, x, query.shape[-3]) for name, x in (("key", key), ("value", value)))
        if enable_gqa or key.shape[-3] == value.shape[-3] == 1:
            inner = 3  # attention itself spreads the heads of keys
    outer = query.shape[:-inner]
    for name, x in (("key", key), ("value", value)):
        outer = _broadcast(name, x, outer, inner)
    spread = tuple(_four_dimensional(x.expand(*outer, *x.shape[-inner:])) for x in (query, key, value))
    return outer if inner == 2 else torch.Size((*outer, query.shape[-3])), (spread[0], spread[1], spread[2])


def _repeated(name: str, x: torch.Tensor, heads: int) -> torch.Tensor:
    """For enable_gqa where key and value have different heads: both get those of query."""
    if x.shape[-3] == 0 or heads % x.shape[-3] != 0:
        raise ValueError(f"{name}: {x.shape[-3]} heads, expected a divisor of the {heads} of query")
    return x.repeat_interleave(heads // x.shape[-3], -3)


def _broadcast(name: str, x: torch.Tensor, outer: torch.Size, inner: int) -> torch.Size:
    """Outer dimensions that hold both."""
    theirs = x.shape[:-inner]
    rank = max(len(outer), len(theirs))
    shape = []
    for a, b in zip((1,) * (rank - len(outer)) + tuple(outer), (1,) * (rank - len(theirs)) + tuple(theirs)):
        if a != b and a != 1 and b != 1:
            hint = ", or enable_gqa=True" if inner == 2 and outer[:-1] == theirs[:-1] else ""
            raise ValueError(
                f"{name}: shape {list(x.shape)}, expected outer dimensions that broadcast with {list(outer)}{hint}"
            )
        shape.append(b if a == 1 else a)
    return torch.Size(shape)


def _four_dimensional(x: torch.Tensor) -> torch.Tensor:
    """[B, H, T, D], all outer dimensions but heads being one, B."""
    if x.dim() > 4:
        return x.flatten(0, -4)
    return x[(None,) * (4 - x.dim())]


def _mask(mask: torch.Tensor, outer: Sequence[int]) -> torch.Tensor:
    """Right-aligned with [B, H, T, S]."""
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"attn_mask: {type(mask).__name__}, expected a torch.Tensor")
    if isinstance(mask, CausalBias):
        return mask
    if mask.dim() < 2:
        return mask[(None,) * (2 - mask.dim())]
    if mask.dim() <= 3 or len(outer) <= 2:
        return mask
    batch = (1,) * (len(outer) - mask.dim() + 2) + tuple(mask.shape[:-3])
    if len(batch) != len(outer) - 1 or any(a not in (1, b) for a, b in zip(batch, outer)):
        raise ValueError(f"attn_mask: shape {list(mask.shape)}, expected outer dimensions that broadcast to {list(outer)}")
    return mask.expand(*outer[:-1], *mask.shape[-3:]).flatten(0, -4)
