"""Where phasor's kernels run. On other tensors modules, and with float64 functions too, compute the same in plain torch."""

from __future__ import annotations

import functools
import warnings

import torch

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def has_kernels(tensor: torch.Tensor) -> bool:
    """Whether a tensor is where the kernels are, on the CPU or on none (meta), in a type that they have."""
    here = tensor.is_cpu or tensor.is_meta
    if here and tensor.dtype is torch.float64:
        warn_of_float64()
    return here and tensor.dtype in _TYPES


def warn_of_float64() -> None:
    if not torch.compiler.is_compiling():
        _warn_once()


@functools.cache  # once a process
def _warn_once() -> None:
    warnings.warn(
        "float64 tensors are computed in plain torch, not by phasor's kernels: slower, in memory that grows with T x S",
        stacklevel=5,
    )
