"""From the paper's formula to an attention layer: angles, rotate_half, the relative property, grouped queries."""

import torch
from phasor import Rope
from phasor.torch import apply_rotary_pos_emb, attention, rotate_half

torch.manual_seed(0)
dim, theta = 8, 10000.0

# theta_i = theta^(-2i/d), the angle of position m is m theta_i.
inv_freq = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
print("theta_i:", inv_freq.tolist())
print("Rope has the same:", torch.allclose(inv_freq.double(), torch.from_numpy(Rope(dim).inv_freq)))


def table(positions):
    angles = torch.outer(positions.float(), inv_freq)
    return torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()


print("rotate_half:", rotate_half(torch.arange(8)).tolist())

# <f(q, m), f(k, n)> depends on n - m only.
q, k = torch.randn(1, dim), torch.randn(1, dim)
for m, n in ((0, 3), (10, 13), (100, 103)):
    turned_q = apply_rotary_pos_emb(q, *table(torch.tensor([m])))
    turned_k = apply_rotary_pos_emb(k, *table(torch.tensor([n])))
    print(f"<f(q, {m}), f(k, {n})> = {(turned_q * turned_k).sum():.5f}")

# In a layer, MiniMind's way: q and k are normalised, turned, and 8 query heads share 2 of keys.
batch, tokens, heads, key_heads, head_dim = 2, 32, 8, 2, 64
xq = torch.nn.functional.rms_norm(torch.randn(batch, heads, tokens, head_dim), (head_dim,))
xk = torch.nn.functional.rms_norm(torch.randn(batch, key_heads, tokens, head_dim), (head_dim,))
xv = torch.randn(batch, key_heads, tokens, head_dim)
rotary = Rope(head_dim, theta=1e6).table(torch.arange(tokens))
out = attention(xq, xk, xv, causal=True, q_rotary=rotary, k_rotary=rotary)  # turned while they are read
print("layer:", out.shape)
