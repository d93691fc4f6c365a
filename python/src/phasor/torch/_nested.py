"""torch's attention of nested tensors with layout=torch.jagged, as one ragged call of phasor.

torch has no operator for it: NestedTensor.__torch_function__ calls a function of Python, which is replaced here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nested._internal import ops
from torch.nested._internal.nested_tensor import NestedTensor, nested_view_from_values_offsets_lengths

from phasor.torch._attention import attention
from phasor.torch._report import count_phasor, count_torch

_torchs = ops.jagged_scaled_dot_product_attention
_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def enable() -> None:
    ops.jagged_scaled_dot_product_attention = _attention


def disable() -> None:
    ops.jagged_scaled_dot_product_attention = _torchs


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    reason = _reason_for_torch(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if reason is not None:
        count_torch(reason)
        return _torchs(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    count_phasor("scaled_dot_product_attention of jagged tensors")
    tokens = [_packed(x) for x in (query, key, value)]
    starts = [x.offsets() for x in (query, key)]
    out = attention(
        *tokens, scale=scale, causal=is_causal, dropout=dropout_p, query_starts=starts[0], key_starts=starts[1]
    )
    nested = nested_view_from_values_offsets_lengths(
        out[0].transpose(0, 1),
        starts[0],
        None,
        min_seqlen=query._maybe_min_seqlen,
        max_seqlen=query._maybe_max_seqlen,
    )
    return nested.transpose(1, 2)


def _packed(x: Any) -> torch.Tensor:
    """[1, H, tokens of all sequences, D] of [B, H, j, D]; a view."""
    return x.transpose(1, 2).values().transpose(0, 1)[None]


def _reason_for_torch(
    query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool, gqa: bool
) -> str | None:
    """Also what torch has an error for."""
    tensors = (query, key, value)
    if not all(isinstance(x, NestedTensor) and x.dim() == 4 and x._ragged_idx == 2 for x in tensors):
        return "jagged: not [B, H, tokens, D]"
    if any(x.lengths() is not None for x in tensors):
        return "jagged: sequences with gaps between them"
    if any(not x.is_cpu for x in tensors):
        return "jagged: not on the CPU"
    if query.dtype not in _TYPES or any(x.dtype is not query.dtype for x in tensors):
        return f"jagged: {query.dtype}, or several types"
    if mask is not None or not 0.0 <= dropout_p < 1.0:
        return "jagged: attn_mask, or dropout_p not in [0, 1)"
    if not torch._C._get_flash_sdp_enabled():
        return "sdpa_kernel or flash_sdp: flash attention is not wanted"
    if key.shape[1] != value.shape[1] or (query.shape[1] != key.shape[1] and not gqa):
        return "jagged: other heads"
    if not _same_lengths(key, value) or (is_causal and not _same_lengths(query, key)):
        return "jagged: other lengths of values, or causal with other lengths of keys"
    return None


def _same_lengths(a: Any, b: Any) -> bool:
    """The size of the ragged dimension is a symbol, which tensors of the same offsets share."""
    return bool(a.shape[2] == b.shape[2])
