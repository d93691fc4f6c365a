"""Attention weights as pictures: the same q and k, plain, rotated, with ALiBi, and in a window. Writes
attention_weights.png, or the file given as the first argument."""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from phasor import Rope, alibi_slopes
from phasor.torch import attention

torch.manual_seed(1)
heads, tokens, head_dim = 4, 48, 32
shared = torch.randn(1, heads, 1, head_dim)
q, k, v = (shared + 0.3 * torch.randn(1, heads, tokens, head_dim) for _ in range(3))
table = Rope(head_dim).table(torch.arange(tokens))
slopes = torch.from_numpy(alibi_slopes(heads))
ways = {
    "plain": {},
    "RoPE": {"q_rotary": table, "k_rotary": table},
    "ALiBi": {"alibi_slopes": slopes, "causal": True},
    "window of 12": {"causal": True, "window": 12},
}

figure, axes = plt.subplots(1, len(ways), figsize=(3 * len(ways), 3.4), constrained_layout=True)
for panel, (name, options) in zip(axes, ways.items()):
    _, weights = attention(q, k, v, **options, return_weights=True)
    panel.imshow(weights[0, 0], cmap="viridis")
    panel.set(title=name, xlabel="key", ylabel="query")
path = sys.argv[1] if len(sys.argv) > 1 else "attention_weights.png"
figure.savefig(path, dpi=120)
print("written:", path)
