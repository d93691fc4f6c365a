"""torch's functions and operators have the options of the table, include/phasor/attention/option_table.h."""

from __future__ import annotations

import inspect

import phasor.torch
import pytest
import torch
from phasor._options import OPTIONS
from phasor.torch import _options


# A rotation consists of two tensors.
LEARNED = [
    row.name + suffix
    for row in OPTIONS
    if row.has_gradient
    for suffix in (("_cos", "_sin") if row.type == "RotaryTable" else ("",))
]


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
        assert arguments[: len(LEARNED)] == LEARNED
    options = {row.name for row in OPTIONS}
    covered = {max((x for x in options if argument.startswith(x)), key=len) for argument in _options.Options._fields}
    assert covered == options
    returns = [result.name for result in backward.returns]
    assert returns[-len(LEARNED) :] == [f"grad_{x}" for x in LEARNED]


def test_every_option_arrives():
    """What pack takes apart, lowered puts together again: a value for each option comes out as it went in."""
    table = phasor.Rope(8).table(torch.arange(3))
    blocks = phasor.BlockMask.from_mask(torch.ones(3, 3, dtype=torch.bool), 2)
    given = {
        "scale": 0.5, "query_scale": torch.ones(3), "block_mask": blocks, "query_offsets": torch.tensor([1]), "causal": True, "window": (2, None),
        "key_lengths": torch.tensor([3]), "query_starts": torch.tensor([0, 3]), "key_starts": torch.tensor([0, 3]),
        "mask": torch.ones(3, 3), "key_bias": torch.ones(3), "relative_bias": (torch.ones(2, 5), -1),
        "alibi_slopes": torch.ones(2), "q_rotary": table, "k_rotary": table, "softcap": 2.0, "sinks": torch.ones(2),
        "dropout": 0.5, "seed": 2**64 - 1,
    }  # fmt: skip
    assert given.keys() == {row.name for row in OPTIONS}
    lowered = _options.lowered(_options.pack((3, 3), given))
    assert lowered.keys() == given.keys()
    for name, value in given.items():
        if name.endswith("rotary"):
            assert (lowered[name].cos, lowered[name].sin, lowered[name].pairing) == (value.cos, value.sin, value.pairing)
        elif name == "block_mask":
            assert (lowered[name].blocks, lowered[name][2:]) == (value.blocks, (2, 2))
            assert torch.equal(lowered[name].bits, value.bits.view(torch.int64))
        else:
            assert lowered[name] is value or lowered[name] == value
    for row in OPTIONS:
        one = _options.lowered(_options.pack((3, 3), {row.name: given[row.name]}))
        assert row.name in one or row.name == "seed"  # which means nothing without dropout


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
    assert lse.shape == weights.shape == (0,) and not softmax.requires_grad
    out.sum().backward()
    with torch.no_grad():
        results = torch.ops.phasor.attention_forward(q, q, q, False, True, False, *packed)
    assert [tuple(x.shape) for x in results] == [(1, 1, 3, 4), (0,), (1, 1, 3, 2), (0,)]
    assert torch.equal(results[2], softmax)
