"""Attention in plain torch, for float64: so that torch.autograd.gradcheck and second derivatives work.

All options are those of the kernels, in the same order; only which weights dropout drops differs, for it comes from
torch's generator. They come as _options.Options. Memory grows with T x S.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from phasor._rotary import Pairing

Tensors = tuple[torch.Tensor, ...]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: Any) -> Tensors:
    """out, lse and weights."""
    _check_shapes(q, k, v, "q", "k", "v")
    q, k = _rotated(q, k, options)
    scale = (q.shape[3] or 1) ** -0.5 if options.scale is None else options.scale
    scores = q @ _of_query_heads(k, q).mT * scale
    weights, lse = _softmax(scores, k, options)
    return weights @ _of_query_heads(v, q), lse, weights


def w2_attention(streams: Tensors, tau: torch.Tensor, eps: float, options: Any) -> Tensors:
    """out_mu, out_log_sigma, lse and weights. Squared distances are expanded around the mean key."""
    q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma = streams
    _check_shapes(q_mu, k_mu, v_mu, "q_mu", "k_mu", "v_mu")
    for name, x, mean in zip(("q", "k", "v"), streams[3:], streams[:3]):
        if x.shape != mean.shape:
            raise ValueError(f"{name}_log_sigma: shape {list(x.shape)}, expected {list(mean.shape)}")
    q_mu, k_mu = _rotated(q_mu, k_mu, options)
    q, k = torch.cat((q_mu, (q_log_sigma / 2).exp()), -1), torch.cat((k_mu, (k_log_sigma / 2).exp()), -1)
    k_of_heads = _of_query_heads(k, q)
    if k.shape[2] > 0:
        middle = k_of_heads.mean(2, keepdim=True)
        q, k_of_heads = q - middle, k_of_heads - middle
    squares = q.square().sum(-1)[..., None] + k_of_heads.square().sum(-1)[:, :, None] - 2 * q @ k_of_heads.mT
    scores = -squares / (tau.to(q.dtype).abs() + eps) * (1.0 if options.scale is None else options.scale)
    weights, lse = _softmax(scores, k, options)
    return weights @ _of_query_heads(v_mu, q), weights @ _of_query_heads(v_log_sigma, q), lse, weights


def _rotated(q: torch.Tensor, k: torch.Tensor, options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    pairings = options.q_rotary_pairing, options.k_rotary_pairing
    if all(pairings) and pairings[0] != pairings[1]:
        raise ValueError(f"k_rotary: pairing {pairings[1]}, expected {pairings[0]} as q_rotary has")
    return (
        rotate(q, options.q_rotary_cos, options.q_rotary_sin, pairings[0]),
        rotate(k, options.k_rotary_cos, options.k_rotary_sin, pairings[1]),
    )


def rotate(x: torch.Tensor, cos: torch.Tensor | None, sin: torch.Tensor | None, pairing: Any) -> torch.Tensor:
    """The first channels of x [B, H, T, D] by a table of at least T rows, or for each sequence."""
    if cos is None or sin is None:
        return x
    if cos.shape[-2] < x.shape[2] or 2 * cos.shape[-1] > x.shape[3]:
        expected = f"at least {x.shape[2]} rows and at most {x.shape[3] // 2} pairs"
        raise ValueError(f"table: shape {list(cos.shape)}, expected {expected}")
    cos, sin = (part[..., : x.shape[2], :] for part in (cos, sin))
    cos, sin = (part[:, None] if part.dim() == 3 else part for part in (cos, sin))
    width = 2 * cos.shape[-1]
    return torch.cat((rotate_plainly(x[..., :width], cos, sin, pairing), x[..., width:]), -1)


def rotate_plainly(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairing: Pairing) -> torch.Tensor:
    """x rotated by a table [..., D/2] that broadcasts against it, in plain torch."""
    if pairing == "half":
        a, b = x.chunk(2, -1)
        rotated = torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
    else:
        a, b = x[..., 0::2], x[..., 1::2]
        rotated = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    return rotated.to(x.dtype)


def _check_shapes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *names: str) -> None:
    if k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        raise ValueError(
            f"{names[1]}: shape {list(k.shape)}, expected batch {q.shape[0]} and last dimension {q.shape[3]} as {names[0]} has"
        )
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"{names[2]}: shape {list(v.shape)}, expected [B, G, S] as {names[1]} of shape {list(k.shape)} has")
    if q.shape[1] != k.shape[1] and (k.shape[1] == 0 or q.shape[1] % k.shape[1] != 0):
        raise ValueError(f"{names[1]}: {k.shape[1]} heads, expected a divisor of the {q.shape[1]} of {names[0]}")


def _of_query_heads(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """[B, G, S, D] -> [B, H, S, D]."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def _softmax(scores: torch.Tensor, k: torch.Tensor, options: Any) -> Tensors:
    """Softcap, biases, masks, softmax, dropout: weights and lse. A query that sees no key has weights of 0."""
    if options.query_scale is not None:
        scores = scores * options.query_scale.to(scores.dtype)[..., None]
    if options.softcap:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    distance, seen = _places(scores, options)
    scores = _biased(scores, k, distance, options)
    if options.mask is not None and options.mask.dtype is torch.bool:
        seen = seen & options.mask
    if options.block_mask_blocks is not None:
        seen = seen & _seen_by_blocks(options, scores.shape[2], scores.shape[3])
    scores = scores.masked_fill(~seen, -math.inf)
    if options.sinks is not None:
        scores = torch.cat((scores, options.sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:3], 1)), -1)
    blind = (scores == -math.inf).all(-1, keepdim=True)
    finite = scores.masked_fill(blind, 0.0)
    weights = torch.softmax(finite, -1).masked_fill(blind, 0.0) if scores.shape[-1] > 0 else scores
    lse = torch.logsumexp(finite, -1).masked_fill(blind[..., 0], -math.inf)
    if options.sinks is not None:
        weights = weights[..., :-1]
    if options.dropout:
        weights = weights * _kept(weights, options)
    return weights, lse


def _seen_by_blocks(options: Any, queries: int, keys: int) -> torch.Tensor:
    """The bool mask that a BlockMask stands for."""
    rows, columns = options.block_mask_query_block, options.block_mask_key_block
    words = options.block_mask_bits.view(torch.int64)
    partial = (words[..., None] >> torch.arange(64) & 1).bool().flatten(-2)[..., :columns]
    whole = torch.tensor([True, False])[:, None, None].expand(2, rows, columns)  # -2 is full, -1 is empty
    tiles = torch.cat((whole, partial))[options.block_mask_blocks.long() + 2]
    return tiles.transpose(-3, -2).flatten(-4, -3).flatten(-2)[..., :queries, :keys]


def _kept(weights: torch.Tensor, options: Any) -> torch.Tensor:
    if not 0 <= options.dropout < 1:
        raise ValueError(f"dropout: rate {options.dropout}, expected at least 0 and below 1")
    generator = torch.Generator()
    if options.seed is not None:
        generator.manual_seed(int(options.seed))
    kept = torch.rand(weights.shape, generator=generator, dtype=weights.dtype) >= options.dropout
    return kept / (1 - options.dropout)


def _biased(scores: torch.Tensor, k: torch.Tensor, distance: torch.Tensor, options: Any) -> torch.Tensor:
    dtype = scores.dtype
    if options.relative_bias is not None and options.alibi_slopes is not None:
        raise ValueError("alibi_slopes: given beside relative_bias, expected one of them")
    if options.key_bias is not None:
        bias = options.key_bias.to(dtype)[(None,) * (3 - options.key_bias.dim())]
        if bias.shape[1] not in (1, scores.shape[1]):  # one for each head of keys
            bias = bias.repeat_interleave(scores.shape[1] // k.shape[1], 1)
        scores = scores + bias[:, :, None]
    if options.relative_bias is not None:
        column = (distance - options.relative_bias_first_distance).clamp(0, options.relative_bias.shape[1] - 1)
        scores = scores + options.relative_bias.to(dtype)[:, column].movedim(0, 1)
    if options.alibi_slopes is not None:
        scores = scores - options.alibi_slopes.to(dtype)[:, None, None] * distance.abs()[:, None]
    if options.mask is not None and options.mask.dtype is not torch.bool:
        scores = scores + options.mask.to(dtype)
    return scores


def _places(scores: torch.Tensor, options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Key minus query position [B or 1, T, S], and who may see whom [B or 1, 1, T, S]."""
    queries, keys = scores.shape[2:]
    i, j = torch.arange(queries), torch.arange(keys)
    together = torch.ones(1, queries, keys, dtype=torch.bool)
    offset, length = options.query_offsets, options.key_lengths
    if offset is None:
        offset = torch.tensor(keys - queries)
    if options.query_starts is not None:
        starts = options.query_starts
        key_starts = starts if options.key_starts is None else options.key_starts
        counts, key_counts = starts.diff(), key_starts.diff()
        of_query, of_key = (torch.arange(len(n)).repeat_interleave(n) for n in (counts, key_counts))
        i, j = i - starts[of_query], j - key_starts[of_key]
        together = (of_query[:, None] == of_key)[None]
        offset = key_counts - counts if options.query_offsets is None else offset
        offset = offset if offset.numel() == 1 else offset[of_query][None]
        length = length if length is None or length.numel() == 1 else length[of_query][None]
    position = offset.reshape(-1, queries if offset.dim() > 1 else 1) + i
    distance = j - position[..., None]
    seen = together
    if length is not None:
        seen = seen & (j < length.reshape(-1, queries if length.dim() > 1 else 1, 1))
    if options.causal:
        seen = seen & (distance <= 0)
    if options.window_left is not None:
        seen = seen & (distance > -options.window_left)
    if options.window_right is not None:
        seen = seen & (distance < options.window_right)
    return distance, seen[:, None]
