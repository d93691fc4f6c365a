"""Modules for position encodings that add: to embeddings (learned, sinusoidal) or to scores (ALiBi)."""

from __future__ import annotations

import math

import torch
from torch import nn

from phasor import _phasor


class LearnedPositionalEncoding(nn.Module):
    """A trainable table [max_len, d_model], added to embeddings [B, T, d_model]. It does not go beyond max_len."""

    def __init__(self, d_model: int, max_len: int = 512) -> None:
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, max_len = x.shape[-2], self.embedding.num_embeddings
        if tokens > max_len:
            raise ValueError(
                f"[LearnedPositionalEncoding] x: {tokens} tokens, expected at most max_len {max_len}: a learned "
                "table has no rows beyond it"
            )
        return x + self.embedding.weight[:tokens]


class SinusoidalPositionalEncoding(nn.Module):
    """The table of Vaswani et al. 2017, added to embeddings [B, T, d_model], of any length.

    PE(position, 2i) = sin(position / 10000^(2i/d_model)), PE(position, 2i + 1) = cos(same). d_model is even. The first
    max_len rows are computed in advance.
    """

    pe: torch.Tensor

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("pe", self._rows(max_len), persistent=False)

    def _rows(self, length: int) -> torch.Tensor:
        return torch.from_numpy(_phasor.sinusoidal(length, self.d_model))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.shape[-2]
        if tokens > self.pe.shape[0]:
            self.pe = self._rows(tokens).to(self.pe.device)
        return x + self.pe[:tokens].to(x.dtype)


class ALiBi(nn.Module):
    """Attention with linear biases (arXiv 2108.12409): -slope[h] * |i - j| added to scores.

    num_heads: slopes are 2^(-8(h+1)/num_heads), for other numbers than powers of two as the authors interpolate.
    causal: keys after the query get -infinity.

    phasor.torch.attention does it without a matrix of biases: alibi_slopes=alibi.slopes, which may be trained there.
    """

    slopes: torch.Tensor

    def __init__(self, num_heads: int, causal: bool = False) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.causal = causal
        self.register_buffer("slopes", torch.from_numpy(_phasor.alibi_slopes(num_heads)), persistent=False)

    def bias(self, queries: int, keys: int | None = None) -> torch.Tensor:
        """[num_heads, T, S]; the last query stands at the last key."""
        keys = queries if keys is None else keys
        device = self.slopes.device
        positions = torch.arange(queries, device=device) + keys - queries
        distances = torch.arange(keys, device=device) - positions[:, None]
        biases = -self.slopes[:, None, None] * distances.abs()
        return biases.masked_fill(distances > 0, -math.inf) if self.causal else biases

    def forward(self, scores: torch.Tensor | int) -> torch.Tensor:
        """scores [..., num_heads, T, S] with the bias added; for a number T of tokens the bias [num_heads, T, T]."""
        if isinstance(scores, int):
            return self.bias(scores)
        return scores + self.bias(scores.shape[-2], scores.shape[-1]).to(scores.dtype)
