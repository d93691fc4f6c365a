"""The tensors that attention works on: checks, casts, and memory like theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from phasor._subclasses import has_own_meaning

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def check_tensors(**tensors: torch.Tensor) -> bool:
    """TypeError for what is no dense tensor of the CPU in a type phasor has. Whether they are float64: for plain torch."""
    wide = False
    for name, tensor in tensors.items():
        if type(tensor) is torch.Tensor and tensor.is_cpu and tensor.dtype in _TYPES and tensor.dim() == 4:
            if tensor.layout is torch.strided and not tensor.is_nested:
                continue  # the usual case; what follows finds the fault of another
        check_dense(name, tensor)
        check_memory(name, tensor)
        if tensor.dtype is torch.float64 and not tensor.is_meta:
            wide = True
        elif tensor.dtype not in _TYPES:
            given = str(tensor.dtype).removeprefix("torch.")
            raise TypeError(f"{name}: {given}, expected float32, bfloat16 or float16")
        if tensor.dim() != 4:
            raise ValueError(f"{name}: shape {list(tensor.shape)}, expected 4 dimensions")
    if wide:
        for name, tensor in tensors.items():
            if tensor.dtype is not torch.float64:
                given = str(tensor.dtype).removeprefix("torch.")
                raise TypeError(f"{name}: {given}, expected float64 as the others have")
    return wide


def check_dense(name: str, tensor: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: {type(tensor).__name__}, expected a torch.Tensor")
    layout = layout_of(tensor)
    if layout is not None:
        raise TypeError(f"{name}: {layout}, expected a dense tensor")


def layout_of(tensor: torch.Tensor) -> str | None:
    """What a tensor is instead of dense; None for a dense one."""
    if tensor.layout is not torch.strided:
        return f"layout {tensor.layout}"
    return "nested" if tensor.is_nested else None


def check_memory(name: str, tensor: torch.Tensor) -> None:
    """TypeError for a tensor that is elsewhere, or whose memory does not tell its value."""
    if not (tensor.is_cpu or tensor.is_meta):
        raise TypeError(f"{name}: on device {tensor.device}, expected the CPU's memory")
    if has_own_meaning(type(tensor)):
        raise TypeError(
            f"{name}: {type(tensor).__name__}, a tensor with functions of its own, expected a plain torch.Tensor"
        )


def autocast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Tensors in the type of the autocast region."""
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(tensor.to(dtype) for tensor in tensors)


def with_channels(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The kernels have at least one channel: tensors without any get one of zeros, which changes no score."""
    if all(x.shape[3] != 0 for x in tensors):
        return tensors
    return tuple(torch.nn.functional.pad(x, (0, 1)) if x.shape[3] == 0 else x for x in tensors)


def with_contiguous_rows(tensor: Any) -> Any:
    """The tensor itself, or a copy where its last dimension is not contiguous (an expanded gradient, x.mT)."""
    if tensor is None or tensor.dim() == 0 or tensor.stride(-1) == 1 or tensor.shape[-1] == 1:
        return tensor
    return tensor.contiguous()


def empty_like(x: torch.Tensor) -> torch.Tensor:
    """Memory in the order of x's, so that [B, T, H, D] memory seen as [B, H, T, D] gives the same."""
    if x.stride(-1) == 1:
        return torch.empty_like(x)
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def empty_float32(shape: Sequence[int] | int) -> torch.Tensor:
    """Memory for the kernel, whatever torch's default type and device are."""
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def empty_output(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    if q.shape[3] == v.shape[3]:
        return empty_like(q)
    return q.new_empty((*q.shape[:3], v.shape[3]))
