"""Tensors whose memory does not tell what they are: taken for what they mean, or refused by name."""

from __future__ import annotations

import phasor
import phasor.torch
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention as torchs

CORNERS = {"upper left": causal_upper_left, "lower right": causal_lower_right}
SIZES = [(8, 12), (8, 8), (1, 5)]


def inputs(queries, keys):
    torch.manual_seed(queries)
    return [torch.randn(2, 4, count, 16) for count in (queries, keys, keys)]


def visible(corner, queries, keys):
    return torch.ones(queries, keys, dtype=torch.bool).tril(0 if corner == "upper left" else keys - queries)


@pytest.mark.parametrize("tokens", SIZES)
@pytest.mark.parametrize("corner", CORNERS)
def test_causal_bias_is_torchs(corner, tokens):
    q, k, v = inputs(*tokens)
    bias = CORNERS[corner](*tokens)
    torch.testing.assert_close(phasor.torch.scaled_dot_product_attention(q, k, v, bias), torchs(q, k, v, bias))


OTHERS = [
    {},
    {"window": 3},
    {"query_offsets": 2},
    {"query_offsets": [1, 3], "causal": True},
    {"causal": True},
    {"alibi_slopes": torch.rand(4)},
    {"key_lengths": [5, 3]},
]


@pytest.mark.parametrize("others", OTHERS, ids=[" ".join(x) for x in OTHERS])
@pytest.mark.parametrize("tokens", SIZES)
@pytest.mark.parametrize("corner", CORNERS)
def test_causal_bias_as_mask(corner, tokens, others):
    q, k, v = inputs(*tokens)
    out = phasor.torch.attention(q, k, v, mask=CORNERS[corner](*tokens), **others)
    dense = phasor.torch.attention(q, k, v, mask=visible(corner, *tokens), **others)
    torch.testing.assert_close(out, dense, rtol=0, atol=1e-6)


@pytest.mark.parametrize("corner", CORNERS)
def test_causal_bias_elsewhere(corner):
    bias, dense = CORNERS[corner](8, 12), visible(corner, 8, 12)
    q, k, v = inputs(8, 12)
    out = phasor.torch.w2_attention(q, k, v, q, k, v, mask=bias)
    for ours, expected in zip(out, phasor.torch.w2_attention(q, k, v, q, k, v, mask=dense)):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)  # distances of 16 channels, by other kernels
    layer = phasor.torch.StandardAttentionWithRoPE(16, 2)
    x, y = torch.randn(2, 8, 16), torch.randn(2, 12, 16)
    torch.testing.assert_close(layer(x, y, y, attn_mask=bias), layer(x, y, y, attn_mask=dense), rtol=0, atol=1e-6)
    compiled = torch.compile(lambda q: phasor.torch.scaled_dot_product_attention(q, k, v, bias), backend="eager")
    torch.testing.assert_close(compiled(q), torchs(q, k, v, bias))


def test_causal_bias_of_other_sizes():
    q, k, v = inputs(8, 12)
    with pytest.raises(ValueError, match="attn_mask: a CausalBias of 8 queries and 11 keys, expected 8 and 12"):
        phasor.torch.scaled_dot_product_attention(q, k, v, causal_upper_left(8, 11))
    for function in (phasor.torch.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention):
        with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
            function(q, k, v, causal_upper_left(8, 12), is_causal=True)
    with pytest.raises(ValueError, match="mask: a CausalBias of 12 queries and 8 keys, expected 8 and 12"):
        phasor.torch.attention(q, k, v, mask=causal_upper_left(12, 8))


class Doubled(torch.Tensor):
    """Holds half of what it means."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        plain = [x.as_subclass(torch.Tensor) * 2 if isinstance(x, cls) else x for x in args]
        return function(*plain, **(kwargs or {}))


class Named(torch.Tensor):
    """Only carries attributes."""


def masked(x):
    return torch.masked.masked_tensor(x, torch.ones_like(x, dtype=torch.bool))


STRANGE = {"Doubled": lambda x: x.as_subclass(Doubled), "MaskedTensor": masked}


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
@pytest.mark.parametrize("name", STRANGE)
def test_unknown_subclasses_are_refused(name):
    x = torch.randn(1, 2, 4, 8)
    strange = STRANGE[name](x)
    attention, sdpa, rotate = phasor.torch.attention, phasor.torch.scaled_dot_product_attention, phasor.torch.apply_rotary
    table = phasor.Rope(8).table(torch.arange(4))
    bias = STRANGE[name](torch.zeros(4))
    calls = {
        "q": lambda: attention(strange, x, x),
        "v": lambda: attention(x, x, strange),
        "mask": lambda: attention(x, x, x, mask=STRANGE[name](torch.zeros(4, 4))),
        "key_bias": lambda: attention(x, x, x, key_bias=bias),
        "query": lambda: sdpa(strange, x, x),
        "attn_mask": lambda: sdpa(x, x, x, STRANGE[name](torch.zeros(4, 4))),
        "q_log_sigma": lambda: phasor.torch.w2_attention(x, x, x, strange, x, x),
        "x": lambda: rotate(strange, table),
        "k": lambda: phasor.attention(x, strange, x),
    }
    for argument, call in calls.items():
        with pytest.raises(TypeError, match=rf"\] {argument}: {name}, .* expected a plain torch.Tensor"):
            call()


def test_nested_tensors_are_refused():
    x = torch.randn(1, 2, 4, 8)
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([torch.randn(2, 3, 8), torch.randn(2, 5, 8)], layout=layout)
        with pytest.raises(TypeError, match=r"\[attention\] q: (nested|layout torch.jagged), expected a dense tensor"):
            phasor.torch.attention(nested, x, x)
        with pytest.raises(RuntimeError, match=r"query: .*expected a dense tensor"):
            phasor.torch.scaled_dot_product_attention(nested, nested, nested)


def test_harmless_subclasses():
    q, k, v = inputs(25, 27)  # more queries than the decode kernel takes, which rounds otherwise
    expected = phasor.torch.attention(q, k, v)
    for kind in (torch.nn.Parameter, lambda x: x.as_subclass(Named)):
        torch.testing.assert_close(phasor.torch.attention(kind(q), kind(k), v), expected, rtol=0, atol=0)
        torch.testing.assert_close(phasor.torch.scaled_dot_product_attention(q, kind(k), v), expected, rtol=0, atol=0)


def test_fake_tensors_have_shapes():
    with FakeTensorMode():
        q, k = torch.empty(2, 4, 5, 16), torch.empty(2, 4, 7, 16)
        assert phasor.torch.scaled_dot_product_attention(q, k, k).shape == (2, 4, 5, 16)
        assert phasor.torch.attention(q, k, k, mask=torch.zeros(5, 7)).shape == (2, 4, 5, 16)
    with pytest.raises(TypeError, match=r"\[attention\] q: FakeTensor"):
        phasor.attention(q, q, q)
