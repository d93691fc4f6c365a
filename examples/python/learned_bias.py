"""A learned score bias, trained on the CPU: each head finds out at which distance to look.

The task: the output at token i is the input at token i - 3. Without positions attention cannot do it; a bias by
distance, one number for each head and distance, learns it. FlexAttention has no gradient for such a bias on CPUs.
"""

import torch
from phasor.torch import attention

torch.manual_seed(0)
batch, heads, tokens, head_dim, reach, shift = 16, 2, 32, 16, 8, 3

bias = torch.nn.Parameter(torch.zeros(heads, 2 * reach + 1))  # distances -reach .. reach
project = torch.nn.Linear(heads * head_dim, heads * head_dim)
optimizer = torch.optim.Adam([bias, *project.parameters()], lr=0.1)

for step in range(81):
    x = torch.randn(batch, tokens, heads * head_dim)
    v = x.unflatten(-1, (heads, head_dim)).transpose(1, 2)
    flat = torch.zeros_like(v)  # no content in q and k: only the bias decides
    out = attention(flat, flat, v, relative_bias=bias)
    predicted = project(out.transpose(1, 2).flatten(2))
    loss = (predicted[:, shift:] - x[:, :-shift]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.4f}")

favourite = bias.argmax(1) - reach
print("distance each head looks at:", favourite.tolist())  # -3, key minus query
assert favourite.tolist() == [-shift] * heads and loss < 0.1
