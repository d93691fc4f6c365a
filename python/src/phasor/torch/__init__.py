"""Attention on the CPU for torch, with gradients.

    import phasor.torch
    out = phasor.torch.scaled_dot_product_attention(query, key, value, is_causal=True)   # as torch's
    out = phasor.torch.attention(q, k, v, causal=True, window=256, alibi_slopes=slopes)  # with all that phasor has
    phasor.torch.enable()                                                                # torch's own, by phasor

Functions: attention, w2_attention, apply_rotary, merge_attention, scaled_dot_product_attention, flex_attention. Modules and functions in the forms that
models have: StandardAttentionWithRoPE, W2TransformerBlock, Qwen3RotaryEmbedding, apply_rotary_pos_emb and others. The
modules also work on other devices, in plain torch; the functions are the CPU's.
"""

from phasor._errors import require

require("torch", "phasor.torch")

from phasor.torch import _flops as _flops
from phasor.torch._attention import attention
from phasor.torch._block_mask import convert_block_mask
from phasor.torch._embeddings import (
    ROPE_INIT_FUNCTIONS,
    Qwen3RotaryEmbedding,
    RotaryEmbedding,
    RotaryPositionalEncoding,
)
from phasor.torch._enable import disable, enable
from phasor.torch._encodings import ALiBi, LearnedPositionalEncoding, SinusoidalPositionalEncoding
from phasor.torch._flex import flex_attention
from phasor.torch._gaussian import RMSNorm, SwiGLU, W2Attention, W2FeedForward, W2TransformerBlock
from phasor.torch._merge import merge_attention
from phasor.torch._report import report
from phasor.torch._rotary import apply_rotary
from phasor.torch._rotations import (
    apply_rotary_emb,
    apply_rotary_pos_emb,
    generate_rope_embeddings,
    precompute_freqs_cis,
    rotate_half,
)
from phasor.torch._sdpa import scaled_dot_product_attention
from phasor.torch._standard import StandardAttentionWithRoPE
from phasor.torch._w2 import w2_attention

__all__ = [
    "ROPE_INIT_FUNCTIONS",
    "ALiBi",
    "LearnedPositionalEncoding",
    "Qwen3RotaryEmbedding",
    "RMSNorm",
    "RotaryEmbedding",
    "RotaryPositionalEncoding",
    "SinusoidalPositionalEncoding",
    "StandardAttentionWithRoPE",
    "SwiGLU",
    "W2Attention",
    "W2FeedForward",
    "W2TransformerBlock",
    "apply_rotary",
    "apply_rotary_emb",
    "apply_rotary_pos_emb",
    "attention",
    "convert_block_mask",
    "disable",
    "enable",
    "flex_attention",
    "generate_rope_embeddings",
    "merge_attention",
    "precompute_freqs_cis",
    "report",
    "rotate_half",
    "scaled_dot_product_attention",
    "w2_attention",
]
