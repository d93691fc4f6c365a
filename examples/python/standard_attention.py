"""Multi-head attention with RoPE over (B, N, D): weights, a causal mask, a padding mask, cross-attention."""

import torch
from phasor.torch import StandardAttentionWithRoPE, generate_rope_embeddings

seq_len = 1024
head_dim = 64  # = embed_dim // num_heads, even
cos, sin = generate_rope_embeddings(seq_len, head_dim)
print(cos.shape, sin.shape)

embed_dim = 512
num_heads = 8
attn = StandardAttentionWithRoPE(embed_dim, num_heads, dropout=0.1)

B, N = 2, 256
x = torch.randn(B, N, embed_dim)
cos, sin = generate_rope_embeddings(N, embed_dim // num_heads)

out, weights = attn(x, x, x, rope_embeddings=(cos, sin), return_attn=True)
print(out.shape, weights.shape)  # (B,N,D), (B,H,N,N)

# Causal: -inf above the diagonal.
causal = torch.full((N, N), float("-inf"))
causal = torch.triu(causal, diagonal=1)
causal = causal.unsqueeze(0).unsqueeze(0)  # (1,1,N,N)

# Padding: True is kept. Where it is kept this is 0 * -inf = NaN, which the module takes as 0.
pad_mask = (torch.randint(0, 10, (B, N)) > 1).to(torch.bool)
add_mask = (~pad_mask).unsqueeze(1).unsqueeze(2) * float("-inf")  # (B,1,1,N)

out = attn(x, x, x, rope_embeddings=(cos, sin), attn_mask=causal)
out_pad = attn(x, x, x, rope_embeddings=(cos, sin), attn_mask=add_mask)
print(out.isfinite().all().item(), out_pad.isfinite().all().item())

# Queries and keys of different sequences.
memory = torch.randn(B, 100, embed_dim)
print(attn(x, memory, memory, rope_embeddings=(cos, sin)).shape)
