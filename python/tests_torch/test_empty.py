"""Sizes of 0 in every dimension, as torch has them."""

from __future__ import annotations

import itertools

import phasor.torch
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as torchs

SIZES = list(itertools.product((0, 2), (0, 2), (0, 3), (0, 4), (0, 8), (0, 8)))  # B, H, T, S, D, E
OPTIONS = {
    "plain": lambda t, s: {},
    "causal": lambda t, s: {"is_causal": True},
    "float mask": lambda t, s: {"attn_mask": torch.randn(t, s)},
    "bool mask": lambda t, s: {"attn_mask": torch.ones(t, s, dtype=torch.bool)},
    "scale": lambda t, s: {"scale": 0.5},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_scaled_dot_product_attention(options):
    torch.manual_seed(1)
    for b, h, t, s, d, e in SIZES:
        inputs = [torch.randn(b, h, *shape, requires_grad=True) for shape in ((t, d), (s, d), (s, e))]
        given = OPTIONS[options](t, s)
        ours, theirs = (f(*inputs, **given) for f in (phasor.torch.scaled_dot_product_attention, torchs))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, msg=lambda m: f"{(b, h, t, s, d, e)}: {m}")
        for our, their in zip(*(torch.autograd.grad(x.sum(), inputs) for x in (ours, theirs))):
            torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_attention_and_w2_attention(sizes):
    b, h, t, s, d, e = sizes
    q, k, v = (torch.randn(b, h, *shape, requires_grad=True) for shape in ((t, d), (s, d), (s, e)))
    for results in (
        phasor.torch.attention(q, k, v, return_lse=True, return_weights=True),
        phasor.torch.w2_attention(q, k, v, q, k, v, return_lse=True, return_weights=True),
    ):
        *outs, lse, weights = results
        assert all(out.shape == (b, h, t, e) for out in outs)
        assert lse.shape == (b, h, t)
        assert weights.shape == (b, h, t, s)
        assert s > 0 or (lse == -torch.inf).all()
        torch.testing.assert_close(weights.sum(-1), torch.full((b, h, t), float(s > 0)))
        gradients = torch.autograd.grad(outs[0].sum(), (q, k, v))
        assert [x.shape for x in gradients] == [q.shape, k.shape, v.shape]
        assert all(x.isfinite().all() for x in gradients)


def test_a_mask_of_keys():
    q, k = torch.randn(2, 4, 5, 16), torch.randn(2, 4, 7, 16)
    seen, added = torch.arange(7) < 5, torch.randn(7, requires_grad=True)
    expected = phasor.torch.attention(q, k, k, mask=seen[None])
    assert torch.equal(phasor.torch.attention(q, k, k, mask=seen), expected)
    assert torch.equal(phasor.torch.scaled_dot_product_attention(q, k, k, seen), expected)
    gradients = []
    for mask in (added, added[None]):
        gradients += torch.autograd.grad(phasor.torch.attention(q, k, k, mask=mask).square().sum(), added)
    assert torch.equal(*gradients)
