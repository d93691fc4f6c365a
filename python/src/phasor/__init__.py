"""Position-aware attention for CPUs, on NumPy arrays, torch tensors and all others with DLPack.

    import numpy as np, phasor
    rope = phasor.Rope(64)
    table = rope.table(np.arange(512))
    out = phasor.attention(q, k, v, causal=True, q_rotary=table, k_rotary=table)

Results are of the kind of the input. Arrays are not copied, unless a docstring says so. Letters of shapes: B sequences, H query
heads, G key heads, T queries, S keys, D channels of a head, E those of values, R rotated ones.
"""

from phasor._attention import AttentionGradients, attention, attention_backward
from phasor._biases import Encoding, RelativeBias, alibi_bias, alibi_slopes, encodings, sinusoidal, t5_bias
from phasor._block_mask import BlockMask, make_block_mask
from phasor._kv_cache import KVCache
from phasor._merge import MergeGradients, merge_attention, merge_attention_backward
from phasor._models import Model, load
from phasor._paged import PagedKVCache, paged_attention
from phasor._phasor import __version__
from phasor._rotary import (
    Rope,
    RotaryTable,
    apply_rotary,
    convert_pairing,
    ntk_aware_rope,
    precompute_freqs_cis,
    rotary_table,
)
from phasor._precision import precision, set_precision
from phasor._threads import num_threads, set_num_threads
from phasor._tokenizer import EncodedText, StreamDecoder, Tokenizer
from phasor._w2 import W2Gradients, w2_attention, w2_attention_backward

__all__ = [
    "AttentionGradients",
    "BlockMask",
    "EncodedText",
    "Encoding",
    "KVCache",
    "MergeGradients",
    "Model",
    "PagedKVCache",
    "RelativeBias",
    "Rope",
    "RotaryTable",
    "StreamDecoder",
    "Tokenizer",
    "W2Gradients",
    "__version__",
    "alibi_bias",
    "alibi_slopes",
    "apply_rotary",
    "attention",
    "attention_backward",
    "convert_pairing",
    "encodings",
    "load",
    "make_block_mask",
    "merge_attention",
    "merge_attention_backward",
    "ntk_aware_rope",
    "num_threads",
    "paged_attention",
    "precision",
    "precompute_freqs_cis",
    "rotary_table",
    "set_num_threads",
    "set_precision",
    "sinusoidal",
    "t5_bias",
    "w2_attention",
    "w2_attention_backward",
]
