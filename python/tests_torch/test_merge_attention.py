"""phasor.torch.merge_attention: split keys give what all keys give, with gradients."""

from __future__ import annotations

import phasor.torch
import pytest
import torch

B, H, G, T, S, D = 2, 4, 2, 7, 12, 8


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)


def normal(*shape):
    return torch.randn(*shape, requires_grad=True)


def whole(q, k, v):
    return phasor.torch.attention(q, k, v, causal=True, return_lse=True)


def split(q, k, v, cut):
    """Query i is at S - T + i, also beside a part of the keys."""
    parts = [
        phasor.torch.attention(
            q, k[:, :, keys], v[:, :, keys], causal=True, query_offsets=S - T - keys.start, return_lse=True
        )
        for keys in (slice(0, cut), slice(cut, S))
    ]
    return phasor.torch.merge_attention(*parts[0], *parts[1])


@pytest.mark.parametrize("cut", [0, 1, 6, 11])  # after 6 some queries see no key
def test_split_keys_are_all_keys(cut):
    inputs = [normal(B, H, T, D), normal(B, G, S, D), normal(B, G, S, D)]
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    factors = torch.randn(B, H, T, D), torch.randn(B, H, T)
    results = []
    for function, tensors in ((lambda *x: split(*x, cut), inputs), (whole, doubles)):
        found = function(*tensors)
        loss = sum((x * f.to(x.dtype)).sum() for x, f in zip(found, factors))
        results.append([*found, *torch.autograd.grad(loss, tensors)])
    for ours, exact in zip(*results):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)


def test_gradients_against_float64():
    tensors = [normal(B, H, T, D), normal(B, H, T), normal(B, H, T, D), normal(B, H, T)]
    doubles = [x.detach().double().requires_grad_() for x in tensors]
    factors = torch.randn(B, H, T, D), torch.randn(B, H, T)

    def plain(out, lse, out2, lse2):
        total = torch.logaddexp(lse, lse2)
        return (lse - total).exp()[..., None] * out + (lse2 - total).exp()[..., None] * out2, total

    for wanted in (slice(0, 2), slice(0, 1), slice(1, 2)):  # of out and lse, or one of them
        gradients = []
        for function, inputs in ((phasor.torch.merge_attention, tensors), (plain, doubles)):
            pairs = list(zip(function(*inputs), factors))[wanted]
            loss = sum((x * f.to(x.dtype)).sum() for x, f in pairs)
            found = torch.autograd.grad(loss, inputs, allow_unused=True)
            gradients.append([torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found)])
        for ours, exact in zip(*gradients):
            torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-6)


def test_float64_and_gradcheck():
    doubles = [x.detach().double().requires_grad_() for x in (normal(1, 2, 3, 4), normal(1, 2, 3)) * 2]
    assert torch.autograd.gradcheck(phasor.torch.merge_attention, doubles)
    blind = torch.full((1, 2, 3), -torch.inf, dtype=torch.float64)
    out, lse = phasor.torch.merge_attention(doubles[0], blind, doubles[2], blind)
    assert not out.any() and (lse == -torch.inf).all()


def test_operators_keep_torchs_rules():
    tensors = [normal(B, H, T, D), normal(B, H, T), normal(B, H, T, D), normal(B, H, T)]
    torch.library.opcheck(torch.ops.phasor.merge_attention.default, tensors)
    fixed = [x.detach() for x in tensors]
    results = torch.ops.phasor.merge_attention(*fixed)
    torch.library.opcheck(torch.ops.phasor.merge_attention_backward.default, (*fixed, *results, fixed[0], None))


def test_second_derivative_is_refused():
    tensors = [normal(B, H, T, D), normal(B, H, T), normal(B, H, T, D), normal(B, H, T)]
    (gradient,) = torch.autograd.grad(phasor.torch.merge_attention(*tensors)[0].sum(), tensors[1], create_graph=True)
    with pytest.raises(NotImplementedError, match=r"\[merge_attention\] second derivative"):
        gradient.sum().backward()


def test_errors():
    out, lse = torch.randn(B, H, T, D), torch.randn(B, H, T)
    for bad, error, words in (
        ((out, lse, out[:, :, :3], lse), ValueError, r"out2: shape \[2, 4, 3, 8\]"),
        ((out, lse, out.half(), lse), TypeError, "out2: float16, expected float32"),
        ((out, lse.double(), out, lse), TypeError, "lse: float64, expected float32"),
        ((out, None, out, lse), TypeError, "lse: NoneType, expected a torch.Tensor"),
    ):
        with pytest.raises(error, match=r"\[merge_attention\] " + words):
            phasor.torch.merge_attention(*bad)
