"""Qwen3's rotary embedding from a config: frequencies, tables, the rotation, and the mistake that is caught."""

import torch
from phasor.torch import Qwen3RotaryEmbedding, apply_rotary_pos_emb


class Qwen3Config:
    hidden_size = 4096
    num_attention_heads = 32
    max_position_embeddings = 4096
    rope_theta = 10000.0
    rope_scaling = {"rope_type": "default"}  # or yarn, llama3, longrope, dynamic, linear, proportional


bs, seq, n_heads, head_dim = 2, 16, 32, 128
rot = Qwen3RotaryEmbedding(Qwen3Config(), device="cpu")
inv_freq = rot.inv_freq.cpu().numpy()
print("inv_freq:", inv_freq.shape, f"{inv_freq.min():.6f} .. {inv_freq.max():.6f}, mean {inv_freq.mean():.6f}")
print("first five:", inv_freq[:5].round(6))

x = torch.randn(bs, seq, n_heads * head_dim)
position_ids = torch.arange(seq).repeat(bs, 1)
cos, sin = rot(x, position_ids)
print("cos:", cos.shape, "error of cos^2 + sin^2:", (cos**2 + sin**2 - 1).abs().max().item())

torch.manual_seed(42)
q = torch.randn(bs, n_heads, seq, head_dim)
k = torch.randn(bs, n_heads, seq, head_dim)
q_rot, k_rot = apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1)
print("change of norms:", (q_rot.norm(dim=-1) - q.norm(dim=-1)).abs().max().item())

# A table that repeats each angle in a row is for adjacent pairs (2i, 2i + 1). Half-split pairs (i, i + 64) turned by it
# would not keep their length, so it is refused.
angles = torch.outer(0.1 * torch.arange(seq), 0.5 ** torch.arange(head_dim // 2))
wide = angles.repeat_interleave(2, dim=-1).expand(bs, seq, head_dim)
try:
    apply_rotary_pos_emb(q, k, wide.cos(), wide.sin())
except ValueError as error:
    print("refused:", error)
q_rot, k_rot = apply_rotary_pos_emb(q, k, angles.cos()[None], angles.sin()[None])  # half as wide: adjacent pairs
print("change of norms:", (q_rot.norm(dim=-1) - q.norm(dim=-1)).abs().max().item())
