"""Attention on the CPU for JAX, with gradients, under jit, grad, vmap and shard_map.

    import phasor.jax
    out = phasor.jax.attention(q, k, v, causal=True, window=256)             # [B, H, T, D], with all that phasor has
    out = phasor.jax.dot_product_attention(query, key, value, is_causal=True)  # [B, T, N, H], as jax.nn's

Functions: attention, w2_attention, dot_product_attention. RotaryTable, RelativeBias and BlockMask are pytrees once this
module is imported.
"""

from phasor._errors import require

require("jax", "phasor.jax")

from phasor.jax import _pytrees as _pytrees
from phasor.jax._attention import attention
from phasor.jax._dot_product import dot_product_attention
from phasor.jax._w2 import w2_attention

__all__ = ["attention", "dot_product_attention", "w2_attention"]
