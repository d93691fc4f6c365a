"""Attention on NumPy arrays: rotated, causal, in a window; its gradients; then token by token from a cache."""

import numpy as np
import phasor

random = np.random.default_rng(0)
batch, heads, key_heads, tokens, head_dim = 1, 8, 2, 256, 64


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


q = normal(batch, heads, tokens, head_dim)
k = normal(batch, key_heads, tokens, head_dim)  # grouped: four heads of q read one of k
v = normal(batch, key_heads, tokens, head_dim)

# The rotary settings of a model, from its config.json or a dict of it.
rope = phasor.Rope.from_config({"model_type": "qwen3", "rope_theta": 1e6, "head_dim": head_dim})
table = rope.table(np.arange(tokens))
options = {"causal": True, "window": 128, "q_rotary": table, "k_rotary": table}

out, softmax = phasor.attention(q, k, v, **options, return_softmax=True)
print("out ", out.shape, out[0, -1, -1, :3].round(4))

gradients = phasor.attention_backward(q, k, v, out, softmax, np.ones_like(out), **options)
print("grad", gradients.k.shape, f"largest {abs(gradients.k).max():.4f}")

# A learned bias by distance goes in as a table, and its gradient comes out.
bias = phasor.RelativeBias(normal(heads, 2 * 16 + 1), first_distance=-16)
out, softmax = phasor.attention(q, k, v, relative_bias=bias, return_softmax=True)
gradients = phasor.attention_backward(q, k, v, out, softmax, np.ones_like(out), relative_bias=bias)
print("bias", gradients.relative_bias.shape)

# Decoding: each token is appended, then attends to all before it.
cache = phasor.KVCache(batch, key_heads, tokens, head_dim, dtype="float16")
for t in range(tokens):
    now, here = rope.table([t]), slice(t, t + 1)
    cache.append(k[:, :, here], v[:, :, here], now)
    last = cache.attention(q[:, :, here], causal=True, window=128, q_rotary=now)
whole = phasor.attention(q, k, v, **options)
print("decoded, off by", f"{abs(last - whole[:, :, -1:]).max():.1e}", "for keys kept in 16 bits")
