"""torch's functions and operators have the options of the table, include/phasor/attention/option_table.h."""

from __future__ import annotations

import inspect

import phasor.torch
import pytest
import torch
from phasor._options import OPTIONS
from phasor.torch import _options
from phasor.torch._options import LEARNED


@pytest.mark.parametrize("function", [phasor.torch.attention, phasor.torch.w2_attention])
def test_signatures(function):
    parameters = list(inspect.signature(function).parameters.values())[-len(OPTIONS) :]
    assert [(p.name, p.default) for p in parameters] == [(row.name, row.default) for row in OPTIONS]


def test_help():
    text = " ".join(inspect.getdoc(phasor.torch.attention).split())
    assert all(f"{row.doc}." in text for row in OPTIONS)


@pytest.mark.parametrize("name", ["attention", "w2_attention"])
def test_operators(name):
    """Each option is an argument of its name, or several whose names begin with it; tensors with gradients come first."""
    forward, backward = (getattr(torch.ops.phasor, f"{name}_{way}").default._schema for way in ("forward", "backward"))
    for schema in (forward, backward):
        arguments = [argument.name for argument in schema.arguments][-len(_options.ARGUMENTS) :]
        assert arguments == list(_options.Options._fields)
        assert arguments[: len(LEARNED)] == list(LEARNED)
    options = {row.name for row in OPTIONS}
    covered = {max((x for x in options if argument.startswith(x)), key=len) for argument in _options.Options._fields}
    assert covered == options
    returns = [result.name for result in backward.returns]
    assert returns[-len(LEARNED) :] == [f"grad_{x}" for x in LEARNED]


def test_every_option_arrives():
    """What pack takes apart, lowered puts together again: a value for each option comes out as it went in."""
    table = phasor.Rope(8).table(torch.arange(3))
    given = {
        "scale": 0.5, "query_scale": torch.ones(3), "block_mask": phasor.make_block_mask(torch.ones(3, 3).bool()),
        "query_offsets": torch.tensor([1]), "causal": True, "window": (2, None),
        "key_lengths": torch.tensor([3]), "query_starts": torch.tensor([0, 3]), "key_starts": torch.tensor([0, 3]),
        "mask": torch.ones(3, 3), "key_bias": torch.ones(3), "relative_bias": (torch.ones(2, 5), -1),
        "alibi_slopes": torch.ones(2), "q_rotary": table, "k_rotary": table, "softcap": 2.0, "sinks": torch.ones(2),
        "dropout": 0.5, "seed": 2**64 - 1, "precision": "float",
    }  # fmt: skip
    assert given.keys() == {row.name for row in OPTIONS}
    lowered = _options.lowered(_options.pack((3, 3), given))
    assert lowered.keys() == given.keys()
    for name, value in given.items():
        if name.endswith("rotary"):
            assert (lowered[name].cos, lowered[name].sin, lowered[name].pairing) == (value.cos, value.sin, value.pairing)
        elif name == "block_mask":
            assert vars(lowered[name]) == vars(value)
        else:
            assert lowered[name] is value or lowered[name] == value
    for row in OPTIONS:
        one = _options.lowered(_options.pack((3, 3), {row.name: given[row.name]}))
        assert row.name in one or row.name == "seed"  # which means nothing without dropout


def learned_cases():
    yield "query_scale", lambda x: {"query_scale": x}, (2, 4, 9)
    yield "q_rotary", lambda x: {"q_rotary": phasor.RotaryTable(x.cos(), x.sin(), "half")}, (9, 8)
    yield "k_rotary", lambda x: {"k_rotary": phasor.RotaryTable(x.cos(), x.sin(), "adjacent"), "causal": True}, (2, 9, 4)
    yield "by head", lambda x: {"q_rotary": phasor.RotaryTable(x.cos(), x.sin(), "half")}, (1, 4, 9, 8)
    yield "only sin", lambda x: {"q_rotary": phasor.RotaryTable(x.detach().cos(), x.sin(), "half")}, (9, 8)


@pytest.mark.filterwarnings("ignore:float64 tensors are computed")
@pytest.mark.parametrize("count", [3, 6])
@pytest.mark.parametrize("name, make, shape", learned_cases(), ids=[name for name, *_ in learned_cases()])
def test_what_is_learned(name, make, shape, count):
    """Gradients beside those of plain torch in double."""
    torch.manual_seed(2)
    function = phasor.torch.attention if count == 3 else phasor.torch.w2_attention
    size = 1.0 if count == 3 else 0.3  # distances are squared: scores of the same size
    streams, x = [size * torch.randn(2, 4, 9, 16) for _ in range(count)], torch.randn(shape, requires_grad=True)
    blocks = {"block_mask": phasor.make_block_mask(torch.rand(2, 4, 9, 9) < 0.8, (4, 4))}
    exact = x.detach().double().requires_grad_()
    ours, expected = function(*streams, **make(x), **blocks), function(*(s.double() for s in streams), **make(exact), **blocks)
    ours, expected = (torch.stack(x if isinstance(x, tuple) else (x,)) for x in (ours, expected))
    torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-4)
    factor = torch.randn(ours.shape)
    (ours * factor).sum().backward()
    (expected * factor).sum().backward()
    torch.testing.assert_close(x.grad.double(), exact.grad, rtol=1e-4, atol=1e-4)


def test_learned_tables_compile():
    torch.manual_seed(3)
    q, angles = torch.randn(1, 2, 5, 8), torch.randn(5, 4, requires_grad=True)
    blocks = phasor.make_block_mask(torch.rand(5, 5) < 0.7, (2, 2))

    def loss(angles):
        table = phasor.RotaryTable(angles.cos(), angles.sin(), "half")
        return phasor.torch.attention(q, q, q, q_rotary=table, k_rotary=table, block_mask=blocks).square().sum()

    expected = torch.autograd.grad(loss(angles), angles)
    torch.testing.assert_close(torch.autograd.grad(torch.compile(loss, fullgraph=True)(angles), angles), expected)


def test_unknown_names_are_refused():
    q = torch.ones(1, 1, 1, 4)
    for function, count in ((phasor.torch.attention, 3), (phasor.torch.w2_attention, 6)):
        with pytest.raises(TypeError, match=r"attention\] query_offset: not an option"):
            function(*[q] * count, query_offset=1)


def test_lse_is_there_only_if_it_is_asked_for():
    """Autograd keeps the softmax's two numbers instead."""
    q = torch.randn(1, 1, 3, 4, requires_grad=True)
    packed = _options.pack((3, 3), {})
    out, lse, softmax, weights = torch.ops.phasor.attention_forward(q, q, q, False, False, False, *packed)
    assert lse.shape == softmax.shape == weights.shape == (0,)
    out.sum().backward()
    for is_recorded in (False, True):
        with torch.set_grad_enabled(is_recorded):
            results = torch.ops.phasor.attention_forward(q, q, q, False, True, False, *packed)
        assert [tuple(x.shape) for x in results] == [(1, 1, 3, 4), (0,), (1, 1, 3, 2), (0,)]
        assert results[0].requires_grad is is_recorded and not results[2].requires_grad
