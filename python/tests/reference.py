"""Attention in plain NumPy and double: the formulas of phasor.attention and phasor.w2_attention, written down again."""

from __future__ import annotations

import numpy as np


def rotate(x, cos, sin, pairing):
    """x [B, H, T, D], cos and sin [T, R/2], [B, T, R/2] or [B, H, T, R/2]."""
    cos, sin = (np.asarray(t, dtype=np.float64) for t in (cos, sin))
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    tokens, pairs = x.shape[2], cos.shape[-1]
    cos, sin = cos[..., :tokens, :], sin[..., :tokens, :]
    first = np.arange(pairs) if pairing == "half" else 2 * np.arange(pairs)
    second = first + pairs if pairing == "half" else first + 1
    result = np.array(x, dtype=np.float64)
    result[..., first] = x[..., first] * cos - x[..., second] * sin
    result[..., second] = x[..., first] * sin + x[..., second] * cos
    return result


def turned(x, table):
    return np.asarray(x, dtype=np.float64) if table is None else rotate(x, table.cos, table.sin, table.pairing)


def distances(batch, queries, keys, query_offsets):
    """Key minus query position, [B, 1, T, S]."""
    offsets = np.broadcast_to(keys - queries if query_offsets is None else query_offsets, (batch,))
    positions = offsets[:, None] + np.arange(queries)
    return (np.arange(keys) - positions[:, :, None])[:, None]


def hidden(distance, causal, window, key_lengths, block_mask=None):
    """True where a query does not see a key."""
    result = np.zeros(distance.shape, dtype=bool)
    if block_mask is not None:
        result = result | ~seen_by_blocks(block_mask, *distance.shape[2:])
    if causal:
        result |= distance > 0
    if window is not None:
        left, right = window if isinstance(window, tuple) else (window, None)
        if left is not None:
            result |= distance <= -left
        if right is not None:
            result |= distance >= right
    if key_lengths is not None:
        result = result | (np.arange(distance.shape[3]) >= np.asarray(key_lengths)[:, None, None, None])
    return result


def seen_by_blocks(mask, queries, keys):
    """The bool mask [B, H, T, S] of a BlockMask, bit by bit."""
    batch, heads = mask.blocks.shape[:2]
    result = np.zeros((batch, heads, queries, keys), dtype=bool)
    for b, h, i, j in np.ndindex(result.shape):
        block = mask.blocks[b, h, i // mask.query_block, j // mask.key_block]
        place = j % mask.key_block
        if block >= 0:
            word = int(mask.bits[block, i % mask.query_block, place // 64])
            result[b, h, i, j] = word >> (place % 64) & 1
        else:
            result[b, h, i, j] = block == -2
    return result


def finish(scores, v, *, sinks=None, values=None):
    """Softmax of scores [B, H, T, S], and the average of values: out, lse, weights."""
    batch, heads, queries, _ = scores.shape
    all_scores = scores
    if sinks is not None:
        column = np.broadcast_to(np.asarray(sinks, dtype=np.float64)[:, None, None], (batch, heads, queries, 1))
        all_scores = np.concatenate([scores, column], axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.max(all_scores, axis=-1, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(largest), largest, 0.0)
        total = np.sum(np.exp(all_scores - shift), axis=-1, keepdims=True)
        lse = (np.log(total) + shift)[..., 0]
        weights = np.where(total > 0, np.exp(scores - shift) / np.where(total > 0, total, 1.0), 0.0)
    outs = [weights @ np.repeat(np.asarray(x, dtype=np.float64), heads // x.shape[1], axis=1) for x in [v, *(values or [])]]
    return (*outs, lse, weights)


def add_biases(scores, *, mask, key_bias, relative_bias, alibi_slopes, distance, groups):
    if key_bias is not None:
        bias = np.asarray(key_bias, dtype=np.float64)
        bias = bias.reshape((1,) * (3 - bias.ndim) + bias.shape)
        if bias.shape[1] != scores.shape[1]:
            bias = np.broadcast_to(bias, (bias.shape[0], groups, bias.shape[2]))
            bias = np.repeat(bias, scores.shape[1] // groups, axis=1)
        scores = scores + bias[:, :, None]
    if relative_bias is not None:
        table, first = relative_bias
        columns = np.clip(distance[:, 0] - first, 0, table.shape[1] - 1)
        scores = scores + np.asarray(table, dtype=np.float64)[:, columns].transpose(1, 0, 2, 3)
    if alibi_slopes is not None:
        scores = scores - np.asarray(alibi_slopes, dtype=np.float64)[:, None, None] * np.abs(distance)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + np.asarray(mask, dtype=np.float64)
    return scores


def attention(
    q, k, v, *, scale=None, causal=False, window=None, query_offsets=None, key_lengths=None, mask=None, key_bias=None,
    relative_bias=None, alibi_slopes=None, q_rotary=None, k_rotary=None, softcap=0.0, sinks=None, query_scale=None,
    block_mask=None,
):  # fmt: skip
    """out, lse, weights of a dense batch without dropout."""
    q, k = turned(q, q_rotary), turned(k, k_rotary)
    batch, heads, queries, channels = q.shape
    groups, keys = k.shape[1], k.shape[2]
    scores = q @ np.repeat(k, heads // groups, axis=1).swapaxes(2, 3)
    scores = scores * (channels**-0.5 if scale is None else scale)
    if query_scale is not None:
        scores = scores * np.asarray(query_scale, dtype=np.float64)[..., None]
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    distance = distances(batch, queries, keys, query_offsets)
    scores = add_biases(
        scores, mask=mask, key_bias=key_bias, relative_bias=relative_bias, alibi_slopes=alibi_slopes,
        distance=distance, groups=groups,
    )  # fmt: skip
    scores = np.where(hidden(distance, causal, window, key_lengths, block_mask), -np.inf, scores)
    return finish(scores, v, sinks=sinks)


def w2_attention(
    q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma, *, tau=1.0, eps=1e-6, scale=None, causal=False,
    window=None, query_offsets=None, key_lengths=None, mask=None, key_bias=None, relative_bias=None, alibi_slopes=None,
    q_rotary=None, k_rotary=None, softcap=0.0, sinks=None, query_scale=None, block_mask=None,
):  # fmt: skip
    """out_mu, out_log_sigma, lse, weights. log_sigma is the log of the variance."""
    heads, groups = q_mu.shape[1], k_mu.shape[1]
    squares = np.zeros(())
    for q, k in (
        (turned(q_mu, q_rotary), turned(k_mu, k_rotary)),
        (np.exp(np.float64(q_log_sigma) / 2), np.exp(np.float64(k_log_sigma) / 2)),
    ):
        k = np.repeat(k, heads // groups, axis=1)
        squares = squares + np.sum((q[:, :, :, None] - k[:, :, None]) ** 2, axis=-1)
    scores = -squares / (abs(tau) + eps) * (1.0 if scale is None else scale)
    if query_scale is not None:
        scores = scores * np.asarray(query_scale, dtype=np.float64)[..., None]
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    distance = distances(q_mu.shape[0], q_mu.shape[2], k_mu.shape[2], query_offsets)
    scores = add_biases(
        scores, mask=mask, key_bias=key_bias, relative_bias=relative_bias, alibi_slopes=alibi_slopes,
        distance=distance, groups=groups,
    )  # fmt: skip
    scores = np.where(hidden(distance, causal, window, key_lengths, block_mask), -np.inf, scores)
    return finish(scores, v_mu, sinks=sinks, values=[v_log_sigma])


def gradient(loss, x, step=1e-5):
    """Central differences of loss() by the double array x, in place."""
    result = np.zeros_like(x)
    flat, out = x.reshape(-1), result.reshape(-1)
    for i in range(flat.size):
        kept = flat[i]
        flat[i] = kept + step
        above = loss()
        flat[i] = kept - step
        out[i] = (above - loss()) / (2 * step)
        flat[i] = kept
    return result
