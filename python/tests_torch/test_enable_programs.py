"""phasor.torch.enable() in whole programs: torch.compile, torch's modules, a model of transformers."""

from __future__ import annotations

import os
import subprocess
import sys

import phasor.torch
import pytest
import torch
from phasor.torch import _enable, _rules
from test_enable import Counted, normal
from tiny_models import LAYERS, inputs, make
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils.flop_counter import FlopCounterMode


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    torch.manual_seed(3)
    monkeypatch.setattr(_rules, "_reason_of_speed", lambda *_: None)
    monkeypatch.setattr(_enable, "is_tiny", lambda *_: False)
    yield
    phasor.torch.disable()


def results(function, *tensors):
    """Its value and gradients."""
    out = function(*tensors)
    return [out, *torch.autograd.grad(out.square().sum(), tensors)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic):
    tensors = normal(2, 4, 20, 16), normal(2, 4, 30, 16), normal(2, 4, 30, 16), normal(20, 30)

    def function(q, k, v, mask):
        return sdpa(q * 2, k, v, mask).sin()

    expected = results(function, *tensors)
    with phasor.torch.enable(), Counted() as count:
        compiled = torch.compile(function, fullgraph=True, dynamic=dynamic)
        found = results(compiled, *tensors)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*tensors), expected[0], rtol=1e-5, atol=1e-5)
    assert count.compiled >= 1 and not count.torch
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


COMPILED = """
import sys, torch, phasor.torch
from torch._inductor.utils import run_and_get_code
x = torch.randn(2, 8, 256, 64)
def attend(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x) + 1
if sys.argv[1] == "on":
    phasor.torch.enable()
_, code = run_and_get_code(torch.compile(attend, fullgraph=True), x)
print("phasor" in "".join(code))
"""


def test_compiled_code_on_the_disk_is_not_mixed_up(tmp_path):
    def has_phasor(state):
        result = subprocess.run(
            [sys.executable, "-c", COMPILED, state],
            env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return result.stdout.strip()

    assert [has_phasor(state) for state in ("off", "on", "off")] == ["False", "True", "False"]


def test_export_keeps_torchs_operator():
    class Attention(torch.nn.Module):
        def forward(self, x):
            return sdpa(x, x, x)

    with phasor.torch.enable():
        program = torch.export.export(Attention(), (torch.randn(1, 2, 20, 16),)).run_decompositions()
    assert not any("phasor" in str(node.target) for node in program.graph.nodes)


@pytest.mark.parametrize("masked", [False, True])
def test_multihead_attention_and_encoder(masked):
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x, padding = normal(3, 10, 32), torch.zeros(3, 10, dtype=torch.bool)
    padding[0, 6:] = masked

    def function(x, *weights):
        return encoder(x, src_key_padding_mask=padding if masked else None)[~padding]

    parameters = tuple(encoder.parameters())
    expected = results(function, x, *parameters)
    with phasor.torch.enable(), Counted() as count:
        found = results(function, x, *parameters)
    assert count.phasor == 2 and not count.torch
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mask", ["none", "keys", "queries", "both"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_encoder_in_inference(mask, dtype):
    """Of 300 tokens: torch's fast path would store all scores."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dtype=dtype).eval()
    x, padding = torch.randn(2, 300, 32, dtype=dtype), torch.zeros(2, 300, dtype=torch.bool)
    padding[0, 200:] = True
    options = {}
    if mask in ("keys", "both"):
        options["src_key_padding_mask"] = padding
    if mask in ("queries", "both"):
        options["src_mask"] = torch.ones(300, 300, dtype=torch.bool).triu(1)
    with torch.inference_mode():
        expected = layer(x, **options)
        with phasor.torch.enable(), Counted() as count:
            found = layer(x, **options)
    assert count.phasor == (dtype is torch.float32)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_weights_of_multihead_attention_are_torchs():
    layer, x = torch.nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.randn(2, 300, 32)
    with torch.inference_mode():
        expected = layer(x, x, x)
        with phasor.torch.enable():
            found = layer(x, x, x)
    for ours, theirs in zip(found, expected):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "t5"])
@pytest.mark.parametrize("padding", [None, "right"])
def test_model_of_transformers(name, padding):
    model, given = make(name, "sdpa"), inputs(name, padding)
    calls = 3 * LAYERS if name == "t5" else LAYERS

    def results():
        model.zero_grad()
        logits = model(**given).logits
        logits.square().mean().backward()
        return logits.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    expected = results()
    with phasor.torch.enable(), Counted() as count:
        found = results()
    assert count.phasor == calls and not count.torch
    for ours, theirs in zip(found, expected):  # some gradients are 0 but for rounding: those of biases of keys
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4 * theirs.abs().max().item())


def test_checkpointing_repeats_dropout():
    x = normal(1, 2, 20, 16)

    def function(x):
        return sdpa(x, x, x, dropout_p=0.5)

    with phasor.torch.enable():
        found = []
        for call in (function, lambda x: torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)):
            torch.manual_seed(7)
            found.append(results(call, x))
    for ours, theirs in zip(*found):
        assert torch.equal(ours, theirs)


def test_flops_are_counted_as_torchs():
    q, k, v = normal(2, 4, 20, 16), normal(2, 2, 30, 16), normal(2, 2, 30, 16)

    def count():
        with FlopCounterMode(display=False) as counter:
            sdpa(q, k, v, enable_gqa=True).sum().backward()
        return counter.get_total_flops()

    expected = count()
    with phasor.torch.enable():
        assert count() == expected > 0
    with FlopCounterMode(display=False) as counter:
        phasor.torch.w2_attention(q, q, q, q, q, q)[0].sum().backward()
    with FlopCounterMode(display=False) as twice:
        wide = torch.cat((q, q), -1)
        phasor.torch.attention(wide, wide, wide).sum().backward()
    assert counter.get_total_flops() == twice.get_total_flops()


def test_gradient_of_a_mask_that_batch_and_heads_share():
    """Expanded before the call, and summed after it; also where the query is broadcast."""
    for mask_shape, query_batch in (((1, 1, 20, 30), 2), ((20, 30), 2), ((2, 1, 1, 30), 1), ((4, 20, 1), 2)):
        tensors = normal(query_batch, 4, 20, 16), normal(2, 4, 30, 16), normal(2, 4, 30, 16), normal(*mask_shape)
        expected = results(sdpa, *tensors)
        with phasor.torch.enable(), Counted() as count:
            found = results(sdpa, *tensors)
        assert count.phasor == 1
        for ours, theirs in zip(found, expected):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
