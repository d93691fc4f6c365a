"""phasor.attention and phasor.w2_attention in plain jnp and double, differentiated by JAX itself."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np


def in_double(function):
    """The function on arguments as doubles, with 64-bit types on."""

    @functools.wraps(function)
    def wrapped(*arguments):
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda x: np.asarray(x).astype(np.float64) if _floating(x) else x, arguments)
            return jax.tree.map(np.asarray, jax.jit(function)(*wide))

    return wrapped


def _floating(x):
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)


def rotate(x, table):
    if table is None:
        return x
    cos, sin = (t[:, None] if t.ndim == 3 else t for t in (table.cos, table.sin))
    pairs = cos.shape[-1]
    if table.pairing == "half":
        a, b, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos, rest], -1)
    a, b, rest = x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2], x[..., 2 * pairs :]
    turned = jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(*x.shape[:-1], 2 * pairs)
    return jnp.concatenate([turned, rest], -1)


def distances(batch, queries, keys, query_offsets):
    """Key minus query position, [B, 1, T, S]."""
    offsets = jnp.broadcast_to(jnp.asarray(keys - queries if query_offsets is None else query_offsets), (batch,))
    positions = offsets[:, None] + jnp.arange(queries)
    return (jnp.arange(keys) - positions[:, :, None])[:, None]


def visible(distance, causal, window, key_lengths, mask, block_mask):
    seen = jnp.ones(distance.shape, bool)
    if causal:
        seen &= distance <= 0
    if window is not None:
        left, right = window if isinstance(window, tuple) else (window, None)
        seen &= True if left is None else distance > -left
        seen &= True if right is None else distance < right
    if key_lengths is not None:
        seen &= jnp.arange(distance.shape[3]) < jnp.asarray(key_lengths)[:, None, None, None]
    if mask is not None and mask.dtype == bool:
        seen = seen & mask
    if block_mask is not None:
        seen = seen & block_mask.dense(*distance.shape[2:])
    return seen


def average(
    scores, values, key_heads, *, query_scale=None, query_offsets=None, causal=False, window=None, key_lengths=None, mask=None,
    block_mask=None, key_bias=None, relative_bias=None, alibi_slopes=None, softcap=0.0, sinks=None,
):  # fmt: skip
    """The averages of values [B, G, S, E], and lse, from scaled scores [B, H, T, S]."""
    batch, heads, queries, keys = scores.shape
    if query_scale is not None:
        scores = scores * query_scale[..., None]
    if softcap:
        scores = softcap * jnp.tanh(scores / softcap)
    distance = distances(batch, queries, keys, query_offsets)
    if key_bias is not None:
        if key_bias.ndim == 3 and key_bias.shape[1] not in (1, heads):
            key_bias = jnp.repeat(key_bias, heads // key_heads, axis=1)
        scores = scores + key_bias[..., None, :]
    if relative_bias is not None:
        table, first = relative_bias
        columns = jnp.clip(distance[:, 0] - first, 0, table.shape[1] - 1)
        scores = scores + table[:, columns].swapaxes(0, 1)
    if alibi_slopes is not None:
        scores = scores - alibi_slopes[:, None, None] * jnp.abs(distance)
    if mask is not None and mask.dtype != bool:
        scores = scores + mask
    scores = jnp.where(visible(distance, causal, window, key_lengths, mask, block_mask), scores, -jnp.inf)
    if sinks is not None:
        column = jnp.broadcast_to(sinks[:, None, None], (batch, heads, queries, 1))
        scores = jnp.concatenate([scores, column], -1)
    weights = jax.nn.softmax(scores, -1)[..., :keys]
    outs = [weights @ jnp.repeat(v, heads // key_heads, axis=1) for v in values]
    return *outs, jax.nn.logsumexp(scores, -1)


def attention(q, k, v, *, scale=None, q_rotary=None, k_rotary=None, **options):
    """out and lse, where each query sees a key."""
    q, k = rotate(q, q_rotary), rotate(k, k_rotary)
    scores = q @ jnp.repeat(k, q.shape[1] // k.shape[1], axis=1).swapaxes(2, 3)
    return average(scores * (q.shape[3] ** -0.5 if scale is None else scale), [v], k.shape[1], **options)


def w2_attention(
    q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma, *, tau=1.0, eps=1e-6, scale=None, q_rotary=None, k_rotary=None, **options
):  # fmt: skip
    """out_mu, out_log_sigma and lse."""
    squares = 0.0
    pairs = ((rotate(q_mu, q_rotary), rotate(k_mu, k_rotary)), (jnp.exp(q_log_sigma / 2), jnp.exp(k_log_sigma / 2)))
    for q, k in pairs:
        k = jnp.repeat(k, q.shape[1] // k.shape[1], axis=1)
        squares = squares + jnp.sum((q[:, :, :, None] - k[:, :, None]) ** 2, -1)
    scores = -squares / (jnp.abs(tau) + eps) * (1.0 if scale is None else scale)
    return average(scores, [v_mu, v_log_sigma], k_mu.shape[1], **options)
