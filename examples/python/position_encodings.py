"""Four ways to tell attention where tokens stand: a learned table, a sinusoidal one, RoPE, ALiBi."""

import torch
from phasor.torch import (
    ALiBi,
    LearnedPositionalEncoding,
    RotaryPositionalEncoding,
    SinusoidalPositionalEncoding,
    apply_rotary_emb,
    attention,
    precompute_freqs_cis,
)

torch.manual_seed(0)
batch, heads, tokens, head_dim = 2, 8, 16, 32
x = torch.randn(batch, tokens, heads * head_dim)
q, k, v = (torch.randn(batch, heads, tokens, head_dim) for _ in range(3))

# Without any, attention does not see order: permuted tokens give permuted results.
order = torch.randperm(tokens)
plain, permuted = attention(q, k, v), attention(q[:, :, order], k[:, :, order], v[:, :, order])
print("order unseen:", torch.allclose(plain[:, :, order], permuted, atol=1e-5))

# Added to embeddings.
print("learned:", LearnedPositionalEncoding(heads * head_dim, max_len=512)(x).shape)
print("sinusoidal:", SinusoidalPositionalEncoding(heads * head_dim)(x).shape)

# RoPE turns q and k: scores depend on distances only. A query at 0 and a key at 2 are as one at 3 and one at 5.
rope = RotaryPositionalEncoding(head_dim)
one_q, one_k = q[:1, :1, :1], k[:1, :1, :1]
for query_at, key_at in ((0, 2), (3, 5)):
    score = (rope(one_q, offset=query_at) * rope(one_k, offset=key_at)).sum()
    print(f"score of {query_at} and {key_at}: {score:.5f}")

# LLaMA's form of it: complex numbers on adjacent pairs, tokens before heads.
freqs_cis = precompute_freqs_cis(head_dim, tokens)
xq, xk = apply_rotary_emb(q.transpose(1, 2), k.transpose(1, 2), freqs_cis)
print("complex form:", xq.shape, xk.shape)

# ALiBi adds -slope * distance to scores; phasor does it without the matrix.
alibi = ALiBi(heads)
print("slopes:", alibi.slopes.tolist())
scores = alibi(q @ k.mT / head_dim**0.5)
by_hand = torch.softmax(scores, -1) @ v
print("ALiBi:", torch.allclose(by_hand, attention(q, k, v, alibi_slopes=alibi.slopes), atol=1e-5))
