"""Attention in plain torch, for double: what phasor.torch is measured against."""

from __future__ import annotations

import phasor
import torch


def rotate(x, table):
    """x [B, H, T, D] turned by a RotaryTable; channels beyond the table stay."""
    cos, sin = (t.to(x.dtype) for t in (table.cos, table.sin))
    if cos.dim() == 3:
        cos, sin = cos[:, None], sin[:, None]
    rotary_dim = 2 * cos.shape[-1]
    turned, rest = x[..., :rotary_dim], x[..., rotary_dim:]
    if table.pairing == "half":
        a, b = turned.chunk(2, -1)
        turned = torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
    else:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    return torch.cat((turned, rest), -1)


def biased(
    scores,
    heads,
    *,
    causal=False,
    window=None,
    query_offsets=None,
    key_lengths=None,
    mask=None,
    key_bias=None,
    relative_bias=None,
    alibi_slopes=None,
    block_mask=None,
):
    """scores [B, H, T, S] with everything that is added to them."""
    batch, _, queries, keys = scores.shape
    offset = keys - queries if query_offsets is None else query_offsets
    offset = torch.as_tensor(offset).reshape(-1, 1, 1, 1)
    position = offset + torch.arange(queries)[:, None]
    distance = torch.arange(keys) - position
    if key_bias is not None:
        groups = key_bias.shape[-2] if key_bias.dim() > 1 else 1
        per_head = key_bias.reshape(-1, groups, keys).repeat_interleave(heads // groups, 1)
        scores = scores + per_head[:, :, None]
    if relative_bias is not None:
        table, first = relative_bias
        column = (distance - first).clamp(0, table.shape[1] - 1)
        scores = scores + table[:, column[:, 0]].transpose(0, 1)
    if alibi_slopes is not None:
        scores = scores - alibi_slopes[:, None, None] * distance.abs()
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if causal:
        hidden = hidden | (distance > 0)
    if window is not None:
        hidden = hidden | (distance <= -window)
    if key_lengths is not None:
        hidden = hidden | (torch.arange(keys) >= torch.as_tensor(key_lengths).reshape(-1, 1, 1, 1))
    if mask is not None:
        if mask.dtype is torch.bool:
            hidden = hidden | ~mask
        else:
            scores = scores + mask
    if block_mask is not None:
        hidden = hidden | ~torch.from_numpy(block_mask.dense(queries, keys))
    return scores.masked_fill(hidden, float("-inf"))


def softmax(scores, sinks=None):
    """Weights and log-sum-exp; rows that see nothing have weights 0."""
    if sinks is not None:
        sink = sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, sink), -1)
    lse = torch.logsumexp(scores, -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return (weights if sinks is None else weights[..., :-1]), lse


def per_head(x, heads):
    return x.repeat_interleave(heads // x.shape[1], 1)


def scaled(scores, query_scale):
    return scores if query_scale is None else scores * query_scale[..., None]


def attention(
    q, k, v, *, scale=None, softcap=0.0, sinks=None, q_rotary=None, k_rotary=None, query_scale=None, **options
):
    """out, lse, weights."""
    heads = q.shape[1]
    q = q if q_rotary is None else rotate(q, q_rotary)
    k = k if k_rotary is None else rotate(k, k_rotary)
    k, v = per_head(k, heads), per_head(v, heads)
    scores = scaled(q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale), query_scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    weights, lse = softmax(biased(scores, heads, **options), sinks)
    return weights @ v, lse, weights


def w2_attention(
    q_mu, k_mu, v_mu, q_l, k_l, v_l, *, tau=1.0, eps=1e-6, scale=None, softcap=0.0, sinks=None, q_rotary=None,
    k_rotary=None, query_scale=None, **options,
):  # fmt: skip
    """out_mu, out_log_sigma, lse, weights: distances as they are written."""
    heads = q_mu.shape[1]
    q_mu = q_mu if q_rotary is None else rotate(q_mu, q_rotary)
    k_mu = k_mu if k_rotary is None else rotate(k_mu, k_rotary)
    k_mu, v_mu, k_l, v_l = (per_head(x, heads) for x in (k_mu, v_mu, k_l, v_l))
    means = (q_mu[:, :, :, None] - k_mu[:, :, None]).square().sum(-1)
    sigmas = ((q_l / 2).exp()[:, :, :, None] - (k_l / 2).exp()[:, :, None]).square().sum(-1)
    scores = scaled(-(means + sigmas) / (abs(tau) + eps) * (1.0 if scale is None else scale), query_scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    weights, lse = softmax(biased(scores, heads, **options), sinks)
    return weights @ v_mu, weights @ v_l, lse, weights


def to_double(value):
    """A differentiable copy in double of each tensor among arguments."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, phasor.RotaryTable) and isinstance(value.cos, torch.Tensor):
        return phasor.RotaryTable(to_double(value.cos), to_double(value.sin), value.pairing)
    if isinstance(value, tuple) and not hasattr(value, "cos"):
        return tuple(to_double(x) for x in value)
    return value
