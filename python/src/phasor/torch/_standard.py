"""Multi-head attention with rotary position embedding on adjacent pairs."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import nn

from phasor._rotary import RotaryTable
from phasor.torch._attention import attention
from phasor.torch._causal_bias import corner_of, visible_keys
from phasor.torch._devices import has_kernels
from phasor.torch._plain import rotate_plainly
from phasor.torch._rotations import Tensors


class StandardAttentionWithRoPE(nn.Module):
    """Multi-head attention over (B, N, D), with biased projections and RoPE on the pairs (2i, 2i + 1) of each head.

    embed_dim: D, divisible by num_heads; the channels of a head, D / num_heads, are even.
    dropout: of attention weights, in training.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads != 0:
            raise ValueError(
                f"[StandardAttentionWithRoPE] embed_dim: {embed_dim}, expected a multiple of num_heads {num_heads}"
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        if self.head_dim % 2 != 0:
            raise ValueError(
                f"[StandardAttentionWithRoPE] embed_dim: {embed_dim} gives heads of {self.head_dim} channels, "
                "expected an even number"
            )
        self.dropout = dropout
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        rope_embeddings: Tensors | None = None,
        attn_mask: torch.Tensor | None = None,
        return_attn: bool = False,
    ) -> Any:
        """out (B, Nq, D), and with return_attn the weights (B, H, Nq, Nk) after dropout, which carry no gradient.

        query: (B, Nq, D); key, value: (B, Nk, D).
        rope_embeddings: cos and sin (length, D/H/2) of generate_rope_embeddings. Both queries and keys count from row
            0. Where length is less than Nq or Nk, the last row stands for all further positions, and a warning is given
            once.
        attn_mask: broadcast to (B, H, Nq, Nk). bool: True attends; else added to scores, and NaN counts as 0, which is
            what `(~keep) * float("-inf")` holds for tokens to keep. A query that sees no key gives weights 0.
        """
        if key.shape != value.shape:
            raise ValueError(
                f"[StandardAttentionWithRoPE] value: shape {list(value.shape)}, expected {list(key.shape)} as key has"
            )
        q, k, v = self._heads(self.q_proj(query)), self._heads(self.k_proj(key)), self._heads(self.v_proj(value))
        tables = None
        if rope_embeddings is not None:
            tables = (self._table(rope_embeddings, q.shape[2]), self._table(rope_embeddings, k.shape[2]))
        tokens = (q.shape[2], k.shape[2])
        corner = corner_of("attn_mask", attn_mask, tokens)
        if corner is not None:
            attn_mask = visible_keys(corner, tokens).to(q.device)
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.masked_fill(attn_mask.isnan(), 0.0)
        if attn_mask is not None and attn_mask.dim() == 1:
            attn_mask = attn_mask[None]  # for attention and torch's own alike
        dropout = self.dropout if self.training else 0.0
        run = _by_kernel if has_kernels(q) else _plainly
        out, weights = run(q, k, v, tables, attn_mask, dropout, return_attn)
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        return (out, weights) if return_attn else out

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:-1], self.num_heads, self.head_dim).transpose(1, 2)

    def _table(self, rope_embeddings: Tensors, tokens: int) -> RotaryTable:
        cos, sin = rope_embeddings
        for name, table in (("cos", cos), ("sin", sin)):
            if table.dim() != 2 or table.shape[1] != self.head_dim // 2 or table.shape[0] == 0:
                raise ValueError(
                    f"[StandardAttentionWithRoPE] rope_embeddings: {name} of shape {list(table.shape)}, expected "
                    f"[length, {self.head_dim // 2}], for adjacent pairs"
                )
        length = cos.shape[0]
        if length < tokens:
            _warn_of_short_table(length, tokens)
            cos, sin = (torch.cat((x, x[-1:].expand(tokens - length, -1))) for x in (cos, sin))
        return RotaryTable(cos[:tokens].float(), sin[:tokens].float(), "adjacent")


def _warn_of_short_table(length: int, tokens: int) -> None:
    """Python's warnings show each line of code once."""
    warnings.warn(
        f"rope_embeddings has {length} rows for {tokens} tokens: its last row stands for all positions from {length} "
        "on, which lose their order. generate_rope_embeddings(seq_len) of the longest input avoids it.",
        stacklevel=4,
    )


def _by_kernel(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    tables: tuple[RotaryTable, RotaryTable] | None,
    mask: torch.Tensor | None,
    dropout: float,
    return_weights: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    q_rotary, k_rotary = tables or (None, None)
    result = attention(
        q,
        k,
        v,
        mask=mask,
        q_rotary=q_rotary,
        k_rotary=k_rotary,
        dropout=dropout,
        return_weights=return_weights,
    )
    return result if return_weights else (result, None)


def _plainly(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    tables: tuple[RotaryTable, RotaryTable] | None,
    mask: torch.Tensor | None,
    dropout: float,
    return_weights: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """In plain torch: by its own fused attention, unless weights are wanted."""
    if tables is not None:
        q, k = (rotate_plainly(x, table.cos, table.sin, "adjacent") for x, table in zip((q, k), tables))
    if mask is not None and mask.dtype is not torch.bool:
        mask = mask.to(q.dtype)
    if not return_weights:
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, dropout), None
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    weights = nn.functional.dropout(weights, dropout)
    return weights @ v, weights.detach()
