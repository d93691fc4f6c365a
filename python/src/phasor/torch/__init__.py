"""Attention on the CPU for torch, with gradients."""

from phasor.torch._attention import attention

__all__ = ["attention"]
