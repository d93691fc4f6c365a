"""nn.MultiheadAttention and nn.TransformerEncoderLayer in inference.

Without gradients they do not call scaled_dot_product_attention but aten::_native_multi_head_attention, which stores all
scores. For long sequences that takes longer than projections around attention.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

from phasor.torch._overrides import Overrides

_NAME = "_native_multi_head_attention"
_torchs = torch.library.get_kernel(f"aten::{_NAME}", "CPU")
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

_TYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
# Tokens from which attention without stored scores is faster, measured by benchmarks/peers/enabled.py.
_TOKENS = 256
_MASKED_KEYS = 1  # a value of mask_type: [B, S]; others are [T, S] and [B, H, T, S]


def _kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if query is key is value and query.dim() == 3 and query.size(1) >= _TOKENS:
        if query.dtype in _TYPES and type(query) is torch.Tensor and torch._C._get_flash_sdp_enabled():
            out = _self_attention(query, *rest)
            if out is not None:
                return out, query.new_empty((0,))
    return _torchs.call_boxed(_CPU, query, key, value, *rest)


def _self_attention(
    x: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> torch.Tensor | None:
    """None where weights are asked for. The mask is added, or bool and True where a key is hidden."""
    if need_weights:
        return None
    if mask is not None:
        mask = mask.logical_not() if mask.dtype is torch.bool else mask
        if mask_type == _MASKED_KEYS:
            mask = mask[:, None, None]
    q, k, v = linear(x, qkv_weight, qkv_bias).unflatten(-1, (3, num_head, -1)).permute(2, 0, 3, 1, 4)
    out = scaled_dot_product_attention(q, k, v, mask)
    return linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias)


NATIVE = Overrides({(_NAME, "CPU"): _kernel})
