"""phasor.torch.scaled_dot_product_attention beside torch's."""

from __future__ import annotations

import inspect

import phasor.torch
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as torchs

ours = phasor.torch.scaled_dot_product_attention


def normal(*shape):
    return torch.randn(shape, requires_grad=True)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)


CASES = {
    "plain": ((2, 4, 7, 16), (2, 4, 9, 16), {}),
    "three dimensions": ((4, 7, 16), (4, 9, 16), {}),
    "five dimensions": ((2, 3, 4, 7, 16), (2, 3, 4, 9, 16), {"attn_mask": (3, 1, 7, 9)}),
    "causal": ((2, 4, 7, 16), (2, 4, 7, 16), {"is_causal": True}),
    "causal, more keys": ((2, 4, 5, 16), (2, 4, 9, 16), {"is_causal": True}),
    "causal, more queries": ((2, 4, 9, 16), (2, 4, 5, 16), {"is_causal": True}),
    "scale": ((2, 4, 7, 16), (2, 4, 9, 16), {"scale": 0.5}),
    "grouped": ((2, 4, 7, 16), (2, 2, 9, 16), {"enable_gqa": True}),
    "float mask": ((2, 4, 7, 16), (2, 4, 9, 16), {"attn_mask": (2, 1, 7, 9)}),
    "mask of three dimensions": ((4, 7, 16), (4, 9, 16), {"attn_mask": (4, 7, 9)}),
    "mask of keys": ((2, 4, 7, 16), (2, 4, 9, 16), {"attn_mask": (9,)}),
    "one batch of keys": ((2, 4, 7, 16), (1, 4, 9, 16), {}),
    "one batch of queries": ((1, 4, 7, 16), (2, 4, 9, 16), {}),
    "one head of queries": ((2, 1, 7, 16), (2, 4, 9, 16), {"attn_mask": (2, 4, 7, 9)}),
    "one head of keys": ((2, 4, 7, 16), (2, 1, 9, 16), {"is_causal": True}),
    "two dimensions": ((7, 16), (9, 16), {"attn_mask": (7, 9)}),
    "two dimensions, causal": ((7, 16), (9, 16), {"is_causal": True}),
    "keys of two dimensions": ((2, 4, 7, 16), (9, 16), {}),
    "queries of two dimensions": ((7, 16), (2, 4, 9, 16), {"attn_mask": (2, 1, 1, 9)}),
    "keys of three dimensions": ((2, 4, 7, 16), (4, 9, 16), {}),
    "five dimensions, one of a size": ((2, 1, 4, 7, 16), (3, 4, 9, 16), {"attn_mask": (2, 3, 1, 7, 9)}),
    "five dimensions, a mask of one batch": ((2, 3, 4, 7, 16), (2, 3, 4, 9, 16), {"attn_mask": (1, 4, 1, 9)}),
    "grouped, one batch of queries": ((1, 4, 7, 16), (2, 2, 9, 16), {"enable_gqa": True}),
    "a number for a mask": ((2, 4, 7, 16), (2, 4, 9, 16), {"attn_mask": ()}),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_torchs(case):
    query_shape, key_shape, options = CASES[case]
    inputs = [normal(*query_shape), normal(*key_shape), normal(*key_shape)]
    if "attn_mask" in options:
        options = options | {"attn_mask": normal(*options["attn_mask"])}
        inputs.append(options["attn_mask"])
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    exact_options = options | ({"attn_mask": doubles[3]} if "attn_mask" in options else {})
    out, exact = ours(*inputs[:3], **options), torchs(*doubles[:3], **exact_options)
    torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)
    factor = torch.randn(out.shape)
    gradients = torch.autograd.grad((out * factor).sum(), inputs)
    exact_gradients = torch.autograd.grad((exact * factor).sum(), doubles)
    for our, true in zip(gradients, exact_gradients):
        torch.testing.assert_close(our.double(), true, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("heads", "options"), [((4, 4, 1), {}), ((4, 1, 4), {}), ((4, 2, 4), {"enable_gqa": True}), ((1, 4, 1), {})]
)
def test_heads_of_values_are_others(heads, options):
    inputs = [normal(2, count, 5, 8) for count in heads]
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    out, exact = ours(*inputs, **options), torchs(*doubles, **options)
    torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)
    gradients = torch.autograd.grad(out.square().sum(), inputs)
    for our, true in zip(gradients, torch.autograd.grad(exact.square().sum(), doubles)):
        torch.testing.assert_close(our.double(), true, rtol=1e-4, atol=1e-4)


def test_dropout_of_everything():
    q, k, v = (normal(1, 2, 4, 8) for _ in range(3))
    out = ours(q, k, v, dropout_p=1.0)
    assert out.shape == (1, 2, 4, 8) and not out.any()
    assert not any(x.any() for x in torch.autograd.grad(out.sum(), (q, k, v)))


def test_bool_mask_with_a_row_that_sees_nothing():
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    mask = torch.rand(4, 4) < 0.6
    mask[2] = False
    out = ours(q, k, v, attn_mask=mask)
    torch.testing.assert_close(out, torchs(q, k, v, attn_mask=mask))
    assert not out[:, :, 2].any()


def test_dropout_is_applied_whenever_given_and_follows_the_seed():
    q, k, v = (torch.randn(1, 2, 64, 8) for _ in range(3))
    torch.manual_seed(5)
    one, two = ours(q, k, v, dropout_p=0.5), ours(q, k, v, dropout_p=0.5)
    torch.manual_seed(5)
    assert torch.equal(one, ours(q, k, v, dropout_p=0.5))
    assert not torch.equal(one, two)
    many = torch.stack([ours(q, k, v, dropout_p=0.5) for _ in range(400)]).mean(0)
    torch.testing.assert_close(many, ours(q, k, v), rtol=0.0, atol=0.25)


def test_signature_is_torchs():
    names = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    assert list(inspect.signature(ours).parameters) == names
    q = torch.randn(1, 2, 4, 8)
    torch.testing.assert_close(ours(q, q, q, None, 0.0, True), torchs(q, q, q, None, 0.0, True))


def test_what_torch_refuses():
    q, k = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 3, 8)
    with pytest.raises(RuntimeError, match="attn_mask: Explicit attn_mask should not be set when is_causal=True"):
        ours(q, q, q, attn_mask=torch.ones(3, 3), is_causal=True)
    with pytest.raises(RuntimeError, match=r"key: shape \[1, 2, 3, 8\], expected .* \[1, 4\], or enable_gqa=True"):
        ours(q, k, k)
    with pytest.raises(RuntimeError, match=r"query: shape \[8\], expected 2 or more dimensions"):
        ours(q[0, 0, 0], q, q)
    with pytest.raises(TypeError, match="positional"):
        ours(q, q, q, None, 0.0, False, 0.5)
    wide, long, five = torch.randn(1, 4, 3, 520), torch.randn(1, 4, 5, 8), torch.randn(2, 3, 4, 3, 8)
    for error, words, arguments, options in (
        (RuntimeError, r"query: shape .*, expected a last dimension of 1 to 512", (wide, wide, wide), {}),
        (RuntimeError, r"key: shape \[1, 4, 3, 520\], expected .* as query of shape", (q, wide, q), {}),
        (RuntimeError, r"value: shape \[1, 4, 5, 8\], expected", (q, q, long), {}),
        (RuntimeError, r"value: shape .* that broadcast", (q, q, q.expand(5, -1, -1, -1).repeat(1, 3, 1, 1)), {}),
        (RuntimeError, r"key: 3 heads", (q, five[0, :, 0][None], five[0, :, 0][None]), {"enable_gqa": True}),
        (RuntimeError, r"key: 3 heads, expected a divisor", (q, five[0, :, 0][None], q), {"enable_gqa": True}),
        (RuntimeError, r"key: float32, expected float64", (q.double(), q, q), {}),
        (TypeError, r"value: ndarray, expected a torch.Tensor", (q, q, q.numpy()), {}),
        (RuntimeError, r"attn_mask: float64, expected", (q, q, q), {"attn_mask": torch.ones(3, 3).double()}),
        (TypeError, r"attn_mask: list, expected", (q, q, q), {"attn_mask": [True]}),
        (RuntimeError, r"attn_mask: shape \[1, 1, 3, 4\]", (q, q, q), {"attn_mask": torch.ones(3, 4)}),
        (RuntimeError, r"attn_mask: shape", (five, five, five), {"attn_mask": torch.ones(2, 2, 4, 3, 3)}),
        (RuntimeError, r"dropout_p: rate 1.5, expected 0 to 1", (q, q, q), {"dropout_p": 1.5}),
    ):
        with pytest.raises(error, match=r"\[scaled_dot_product_attention\] " + words):
            ours(*arguments, **options)


Q, K, G = torch.randn(2, 4, 5, 16), torch.randn(2, 4, 7, 16), torch.randn(2, 3, 7, 16)
WRONG = {
    "a list": lambda f: f([1], K, K),
    "None": lambda f: f(Q, None, K),
    "one dimension": lambda f: f(torch.randn(5), K, K),
    "two types": lambda f: f(Q, K.bfloat16(), K),
    "int": lambda f: f(Q.int(), K.int(), K.int()),
    "channels": lambda f: f(Q, K[..., :8], K),
    "batches": lambda f: f(Q, K[:1].expand(3, 4, 7, 16), K[:1].expand(3, 4, 7, 16)),
    "heads": lambda f: f(Q, G, G),
    "groups": lambda f: f(Q, G, G, enable_gqa=True),
    "mask beside is_causal": lambda f: f(Q, K, K, torch.zeros(5, 7), is_causal=True),
    "mask of int": lambda f: f(Q, K, K, torch.zeros(5, 7, dtype=torch.int32)),
    "mask of float64": lambda f: f(Q, K, K, torch.zeros(5, 7, dtype=torch.float64)),
    "mask of float16": lambda f: f(Q, K, K, torch.zeros(5, 7).half()),
    "mask of other keys": lambda f: f(Q, K, K, torch.zeros(5, 6)),
    "mask of other heads": lambda f: f(Q, K, K, torch.zeros(3, 5, 7)),
    "mask of five dimensions": lambda f: f(Q, K, K, torch.zeros(1, 1, 1, 5, 7)),
    "mask is a list": lambda f: f(Q, K, K, [[1]]),
    "dropout_p 1.5": lambda f: f(Q, K, K, dropout_p=1.5),
    "dropout_p is a text": lambda f: f(Q, K, K, dropout_p="a"),
    "scale is a text": lambda f: f(Q, K, K, scale="a"),
    "is_causal is a number": lambda f: f(Q, K, K, is_causal=1),
    "enable_gqa is a number": lambda f: f(Q, K, K, enable_gqa=1),
    "an unknown option": lambda f: f(Q, K, K, window=1),
    "one on meta": lambda f: f(Q.to("meta"), K, K),
    "sparse": lambda f: f(Q.to_sparse(), K, K),
}


@pytest.mark.parametrize("case", WRONG)
def test_exceptions_have_torchs_types(case):
    with pytest.raises((RuntimeError, TypeError)) as theirs:
        WRONG[case](torchs)
    with pytest.raises(theirs.type):
        WRONG[case](ours)
