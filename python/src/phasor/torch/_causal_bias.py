"""torch's CausalBias (causal_upper_left, causal_lower_right): a mask that is a rule, with no memory to read."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch.nn.attention.bias import CausalBias, CausalVariant

Corner = Literal["upper left", "lower right", "both"]


def corner_of(name: str, mask: Any, tokens: tuple[int, int]) -> Corner | None:
    """Where the diagonal of a CausalBias for (T, S) tokens begins or ends; None for any other mask."""
    if not isinstance(mask, CausalBias):
        return None
    if (mask.seq_len_q, mask.seq_len_kv) != tokens:
        raise ValueError(
            f"{name}: a CausalBias of {mask.seq_len_q} queries and {mask.seq_len_kv} keys, expected {tokens[0]} and "
            f"{tokens[1]}"
        )
    if tokens[0] == tokens[1]:
        return "both"
    return "lower right" if mask.variant is CausalVariant.LOWER_RIGHT else "upper left"


def visible_keys(corner: Corner, tokens: tuple[int, int]) -> torch.Tensor:
    """[T, S], True where a query sees a key."""
    diagonal = 0 if corner == "upper left" else tokens[1] - tokens[0]
    return torch.ones(tokens, dtype=torch.bool, device="cpu").tril(diagonal)
