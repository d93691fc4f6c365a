"""Where phasor's kernels run. Modules on tensors elsewhere compute the same in plain torch."""

from __future__ import annotations

import torch


def has_kernels(tensor: torch.Tensor) -> bool:
    """Whether a tensor is where the kernels are: on the CPU, or on none (meta)."""
    return tensor.is_cpu or tensor.is_meta
