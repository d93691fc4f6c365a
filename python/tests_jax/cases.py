"""Options for B = 2, H = 4, G = 2, T = 9, S = 11, D = 8, by name: those that learn, and the others."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import phasor

B, H, G, T, S, D, E = 2, 4, 2, 9, 11, 8, 6
_random = np.random.default_rng(7)


def normal(*shape, dtype=jnp.float32):
    return jnp.asarray(_random.standard_normal(shape), dtype)


def table(*shape, pairing="half"):
    angles = _random.uniform(0, 6, shape)
    return phasor.RotaryTable(jnp.asarray(np.cos(angles), jnp.float32), jnp.asarray(np.sin(angles), jnp.float32), pairing)


def inputs():
    return {"q": normal(B, H, T, D), "k": normal(B, G, S, D), "v": normal(B, G, S, E)}


def streams():
    return {
        "q_mu": normal(B, H, T, D), "k_mu": normal(B, G, S, D), "v_mu": normal(B, G, S, E),
        "q_log_sigma": normal(B, H, T, D), "k_log_sigma": normal(B, G, S, D), "v_log_sigma": normal(B, G, S, E),
    }  # fmt: skip


_seen = np.tril(np.ones((T, S), bool), 2)
# name: (learned, others)
CASES = {
    "plain": ({}, {}),
    "scale, window": ({}, {"scale": 0.3, "window": (4, 3)}),
    "causal, softcap": ({}, {"causal": True, "softcap": 2.0}),
    "lengths and offsets": ({}, {"causal": True, "key_lengths": jnp.array([5, 11]), "query_offsets": jnp.array([3, 2])}),
    "mask of bool": ({}, {"mask": jnp.asarray(_seen)}),
    "block mask": ({}, {"block_mask": phasor.make_block_mask(_seen, 4)}),
    "query_scale": ({"query_scale": normal(B, 1, T)}, {}),
    "query_scale for all": ({"query_scale": normal(T)}, {}),
    "mask of float32": ({"mask": normal(B, H, T, S)}, {"causal": True}),
    "mask by key": ({"mask": normal(H, 1, S)}, {}),
    "key_bias": ({"key_bias": normal(B, H, S)}, {}),
    "key_bias by key head": ({"key_bias": normal(1, G, S)}, {"causal": True}),
    "relative_bias": ({"relative_bias": phasor.RelativeBias(normal(H, 7), -4)}, {"causal": True}),
    "alibi_slopes": ({"alibi_slopes": normal(H)}, {"window": 5}),
    "rotary": ({"q_rotary": table(T, D // 2), "k_rotary": table(S, D // 2)}, {"causal": True}),
    "rotary by sequence": (
        {"q_rotary": table(B, T, 2, pairing="adjacent"), "k_rotary": table(B, S, 2, pairing="adjacent")}, {}
    ),
    "rotary by head": ({"q_rotary": table(1, H, T, 3), "k_rotary": table(B, G, S, 3)}, {}),
    "sinks": ({"sinks": normal(H)}, {"causal": True}),
    "many": (
        {"sinks": normal(H), "mask": normal(T, S), "key_bias": normal(S), "alibi_slopes": normal(H), "query_scale": normal(H, T)},
        {"causal": True, "softcap": 5.0, "window": 8, "query_offsets": 2},
    ),
}  # fmt: skip
