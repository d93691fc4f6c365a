"""torch.nn.functional.scaled_dot_product_attention, computed by phasor."""

from __future__ import annotations

import torch

from phasor.torch._attention import attention


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """As torch's function of this name, with its signature and rules:

    query: [..., H, T, D]; key: [..., G, S, D]; value: [..., G, S, E], of 3 or more dimensions. G = H, or with
        enable_gqa a divisor of H.
    attn_mask: bool (True attends) or float (added), right-aligned with [..., H, T, S]; a float one gets a gradient.
    is_causal: query i sees the keys j <= i, counted from the top left also where T is not S. Not beside attn_mask.
    dropout_p: applied whenever it is not 0, as torch's; the seed comes from torch's generator.

    A query that sees no key gives 0.
    """
    if is_causal and attn_mask is not None:
        raise ValueError("[scaled_dot_product_attention] attn_mask: given beside is_causal=True, expected one of them")
    if not enable_gqa and query.dim() >= 3 and key.dim() >= 3 and query.shape[-3] != key.shape[-3] != 1:
        raise ValueError(
            f"[scaled_dot_product_attention] key: {key.shape[-3]} heads, expected {query.shape[-3]} as query has, "
            "or enable_gqa=True"
        )
    outer = query.shape[:-3]
    out: torch.Tensor = attention(
        _four_dimensional("query", query, outer),
        _four_dimensional("key", key, outer),
        _four_dimensional("value", value, outer),
        scale=scale,
        causal=is_causal,
        query_offset=0 if is_causal else None,
        mask=None if attn_mask is None else _mask(attn_mask, outer),
        dropout=dropout_p,
    )
    return out if len(outer) == 1 else out.reshape(*outer, *out.shape[1:])


def _four_dimensional(name: str, x: torch.Tensor, outer: torch.Size) -> torch.Tensor:
    """[B, H, T, D], all outer dimensions being one, B."""
    if x.dim() < 3:
        raise ValueError(f"[scaled_dot_product_attention] {name}: shape {list(x.shape)}, expected 3 or more dimensions")
    if x.shape[:-3] != outer:
        x = x.expand(*outer, *x.shape[-3:])
    return x if len(outer) == 1 else x.unsqueeze(0) if len(outer) == 0 else x.flatten(0, -4)


def _mask(mask: torch.Tensor, outer: torch.Size) -> torch.Tensor:
    """Right-aligned with [B, H, T, S]."""
    if mask.dim() > 3 and len(outer) > 1:
        return mask.expand(*outer, *mask.shape[-3:]).flatten(0, -4)
    return mask if mask.dim() >= 2 else mask.expand(1, *mask.shape[-1:])
