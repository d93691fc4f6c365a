"""Ragged batches under phasor.torch.enable(): nested tensors (layout=torch.jagged) and varlen_attn."""

from __future__ import annotations

import phasor.torch
import pytest
import torch
from test_enable import Counted
from torch.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out
from torch.nn.functional import scaled_dot_product_attention as sdpa

LENGTHS, KEY_LENGTHS, HEADS, CHANNELS = (5, 40, 17), (9, 40, 30), 4, 16


@pytest.fixture(autouse=True)
def enabled():
    torch.manual_seed(3)
    with phasor.torch.enable():
        yield


def normal(*shape):
    return torch.randn(shape, requires_grad=True)


def visible(queries, keys, window):
    """[T, S]; the last query is at the last key, -1 is no bound."""
    distance = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
    left, right = (queries + keys if size < 0 else size for size in window)
    return (distance >= -left) & (distance <= right)


def one_by_one(q, k, v, lengths, key_lengths, window=(-1, -1), scale=None):
    """Of [T, H, D], in double."""
    outs = []
    for parts in zip(q.split(lengths), k.split(key_lengths), v.split(key_lengths)):
        heads_first = [x.double().transpose(0, 1)[None] for x in parts]
        mask = visible(len(parts[0]), len(parts[1]), window)
        out = sdpa(*heads_first, attn_mask=mask, scale=scale, enable_gqa=True)
        outs.append(out[0].transpose(0, 1))
    return torch.cat(outs)


def check(found, inputs, expected):
    """Values, and gradients by inputs."""
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    factor = torch.randn(found.shape)
    ours = torch.autograd.grad((found * factor).sum(), inputs)
    for gradient, exact in zip(ours, torch.autograd.grad((expected * factor).sum(), inputs)):
        torch.testing.assert_close(gradient, exact, rtol=1e-4, atol=1e-4)


def starts(lengths):
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)


def jagged(values, lengths):
    """[B, H, j, D]"""
    return torch.nested.nested_tensor_from_jagged(values, starts(lengths).long()).transpose(1, 2)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.5}])
def test_jagged(options):
    inputs = [normal(sum(LENGTHS), HEADS, CHANNELS) for _ in range(3)]
    offsets = starts(LENGTHS).long()
    tensors = [torch.nested.nested_tensor_from_jagged(x, offsets).transpose(1, 2) for x in inputs]
    with Counted() as count:
        out = sdpa(*tensors, **options).transpose(1, 2).values()
    assert count.phasor == 1 and not count.torch
    window = (-1, 0) if options.get("is_causal") else (-1, -1)
    check(out, inputs, one_by_one(*inputs, LENGTHS, LENGTHS, window, options.get("scale")))


def test_jagged_with_other_lengths_of_keys():
    q, k, v = normal(sum(LENGTHS), HEADS, CHANNELS), *(normal(sum(KEY_LENGTHS), HEADS, CHANNELS) for _ in range(2))
    keys = torch.nested.nested_tensor_from_jagged(k, starts(KEY_LENGTHS).long())
    values = torch.nested.nested_tensor_from_jagged(v, keys.offsets())
    out = sdpa(jagged(q, LENGTHS), keys.transpose(1, 2), values.transpose(1, 2))
    check(out.transpose(1, 2).values(), [q, k, v], one_by_one(q, k, v, LENGTHS, KEY_LENGTHS))


def test_jagged_compiled():
    x = normal(sum(LENGTHS), HEADS, CHANNELS)

    @torch.compile(fullgraph=True)
    def attend(nested):
        return sdpa(nested, nested, nested).transpose(1, 2).values() * 2

    check(attend(jagged(x, LENGTHS)), [x], 2 * one_by_one(x, x, x, LENGTHS, LENGTHS))


def test_jagged_of_float64_is_torchs():
    x = torch.randn(sum(LENGTHS), HEADS, CHANNELS, dtype=torch.float64)
    with Counted() as count:
        nested = jagged(x, LENGTHS)
        out = sdpa(nested, nested, nested).transpose(1, 2).values()
    assert count.phasor == 0 and "float64" in next(iter(count.torch))
    torch.testing.assert_close(out, one_by_one(x, x, x, LENGTHS, LENGTHS))


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (7, 0), (3, 4)])
@pytest.mark.parametrize("groups", [HEADS, 2])
def test_varlen(window, groups):
    q, k, v = normal(sum(LENGTHS), HEADS, CHANNELS), *(normal(sum(KEY_LENGTHS), groups, CHANNELS) for _ in range(2))
    out, lse = varlen_attn(
        q, k, v, starts(LENGTHS), starts(KEY_LENGTHS), max(LENGTHS), max(KEY_LENGTHS),
        window_size=window, enable_gqa=True, scale=0.3, return_aux=AuxRequest(lse=True),
    )  # fmt: skip
    expected = one_by_one(q, k, v, LENGTHS, KEY_LENGTHS, window, 0.3)
    check(out, [q, k, v], expected)
    scores = q[:5].transpose(0, 1).double() @ k[:9].transpose(0, 1).repeat_interleave(HEADS // groups, 0).mT.double() * 0.3
    scores = scores.masked_fill(~visible(5, 9, window), float("-inf"))
    torch.testing.assert_close(lse[:, :5].double(), scores.logsumexp(-1), rtol=1e-5, atol=1e-5)
    memory = torch.empty_like(out)
    arguments = (q, k, v, starts(LENGTHS), starts(KEY_LENGTHS), max(LENGTHS), max(KEY_LENGTHS))
    with torch.no_grad():
        varlen_attn_out(memory, *arguments, window_size=window, enable_gqa=True, scale=0.3)
    assert torch.equal(memory, out)


def test_varlen_compiled():
    x = normal(sum(LENGTHS), HEADS, CHANNELS)

    @torch.compile(fullgraph=True)
    def attend(x):
        return varlen_attn(x, x, x, starts(LENGTHS), starts(LENGTHS), max(LENGTHS), max(LENGTHS), window_size=(-1, 0))

    check(attend(x), [x], one_by_one(x, x, x, LENGTHS, LENGTHS, (-1, 0)))


def test_varlen_with_pages_of_which_some_tokens_are_used():
    """Pages of 8 tokens, in any order; two queries a sequence, at the end of what is used."""
    page, used, table = 8, (11, 3, 16), torch.tensor([[4, 1], [0, 5], [2, 3]], dtype=torch.int32)
    q, k, v = torch.randn(6, HEADS, CHANNELS), *(torch.randn(6, page, 2, CHANNELS) for _ in range(2))
    out = varlen_attn(
        q, k, v, starts((2, 2, 2)), None, 2, 16, window_size=(-1, 0), enable_gqa=True,
        seqused_k=torch.tensor(used, dtype=torch.int32), block_table=table,
    )  # fmt: skip
    keys, values = (torch.cat([x[row].flatten(0, 1)[:n] for row, n in zip(table.long(), used)]) for x in (k, v))
    expected = one_by_one(q, keys, values, (2, 2, 2), used, (-1, 0))
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)


def test_varlen_refuses_what_phasor_does_not_have():
    x = torch.randn(5, HEADS, CHANNELS, dtype=torch.float64)
    with pytest.raises(TypeError, match="query: float64, expected float32, bfloat16 or float16"):
        varlen_attn(x, x, x, starts((5,)), starts((5,)), 5, 5)
    x = x.float()
    with pytest.raises(NotImplementedError, match="dropout_p: 0.5, expected 0"):
        torch.ops.aten._flash_attention_forward(x, x, x, starts((5,)), starts((5,)), 5, 5, 0.5, False, False)


@pytest.mark.parametrize(
    "cu_seq, error, message",
    [
        (torch.tensor([0.0, 4.5, 10.0]), TypeError, "cu_seq_q: float32, expected int32 or int64"),
        (torch.tensor([0, 8, 4, 10]), ValueError, "cu_seq_q: descends"),
        (torch.tensor([0, 4, 12]), ValueError, "cu_seq_q: 3 numbers from 0 to 12, expected at least two, from 0 to 10"),
    ],
)
def test_varlen_refuses_wrong_starts_by_torchs_name(cu_seq, error, message):
    x = torch.randn(10, HEADS, CHANNELS)
    with pytest.raises(error, match=r"\[_flash_attention_forward\] " + message):
        varlen_attn(x, x, x, cu_seq, cu_seq, 10, 10)
