"""Attention on the CPU for torch, with gradients."""

from phasor.torch._attention import attention
from phasor.torch._rotary import apply_rotary
from phasor.torch._sdpa import scaled_dot_product_attention
from phasor.torch._w2 import w2_attention

__all__ = ["apply_rotary", "attention", "scaled_dot_product_attention", "w2_attention"]
