"""What the tests of flex_attention have in common: inputs, and attention over all scores in plain torch."""

from __future__ import annotations

import math

import torch

B, H, G, T, S, D, E = 2, 4, 2, 70, 90, 16, 8


def normal(*shape, scale=1.0):
    return (torch.randn(*shape) * scale).requires_grad_()


def inputs():
    return [normal(B, H, T, D), normal(B, G, S, D), normal(B, G, S, E)]


def dense(q, k, v, mod=None, mask=None, scale=None):
    """out and lse, over all scores. mod and mask take tensors of indices that broadcast."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    indices = [torch.arange(n).reshape([-1 if i == j else 1 for j in range(4)]) for i, n in enumerate(scores.shape)]
    if mod is not None:
        scores = mod(scores, *indices)
    if mask is not None:
        scores = scores.masked_fill(~mask(*indices), -math.inf)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return weights @ v, torch.logsumexp(scores, -1)


def alibi(slopes):
    return lambda score, b, h, i, j: score - slopes[h] * (i - j).abs()
