"""Models of transformers with attn_implementation="phasor" against "eager": logits, gradients, training."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from tiny_models import LAYERS, MODELS, batch, inputs, make, real_positions, recorded_calls
from torch.testing import assert_close


def logits_and_gradients(model, given):
    """Logits at tokens that are not padding, and the gradients of a loss on them by name of parameter."""
    model.zero_grad()
    logits = model(**given, use_cache=False).logits if model.can_generate() else model(**given).logits
    logits = logits[real_positions(given)]
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(5))
    (logits * weights).mean(-1).sum().backward()
    return logits.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("padding", [None, "left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients_are_those_of_eager(name, padding):
    given = inputs(name, padding)
    expected, expected_gradients = logits_and_gradients(make(name), given)
    with recorded_calls() as calls:
        logits, gradients = logits_and_gradients(make(name, "phasor"), given)
    assert len(calls) == MODELS[name][2]
    assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    assert gradients.keys() == expected_gradients.keys()
    for key, gradient in gradients.items():
        text = functools.partial("{}: {}".format, key)
        assert_close(gradient, expected_gradients[key], rtol=1e-4, atol=1e-4, msg=text)


@pytest.mark.parametrize("padding", [None, "left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_no_mask_has_rows_for_queries(name, padding):
    with recorded_calls() as calls:
        make(name, "phasor")(**inputs(name, padding))
    for options in calls:
        mask = options.get("mask")
        assert mask is None or mask.shape[-2] == 1 or (name == "t5" and mask.shape[:2] == (1, 4))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mistral", {"sliding_window": 3}),
        ("gemma2", {"attn_logit_softcapping": 30.0}),
        ("gemma2", {"sliding_window": 3}),
        ("gpt_oss", {"sliding_window": 3}),
        ("modernbert", {"local_attention": 2}),
    ],
)
def test_what_the_options_are_matters(name, change):
    """The comparisons above would see a window or a softcap that is left out."""
    given = inputs(name, None)
    other = make(name, "phasor", **change)(**given).logits
    assert (make(name, "phasor")(**given).logits - other).abs().max() > 1e-2


def test_sinks_matter():
    model, given = make("gpt_oss", "phasor"), inputs("gpt_oss", None)
    before = model(**given).logits
    for layer in model.model.layers:
        layer.self_attn.sinks.data += 1.0
    assert (model(**given).logits - before).abs().max() > 1e-2


def train(model, given, steps=20):
    labels = given["input_ids"].masked_fill(~given["attention_mask"].bool(), -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        loss = model(**given, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", ["llama", "gemma2", "t5"])
def test_a_training_loop_gives_the_losses_of_eager(name):
    given = batch("right")
    expected = train(make(name).train(), given)
    losses = train(make(name, "phasor").train(), given)
    assert expected[-1] < 0.9 * expected[0]
    assert losses == pytest.approx(expected, rel=1e-4)


def test_gradient_checkpointing():
    given = inputs("llama", "left")
    expected, expected_gradients = logits_and_gradients(make("llama").train(), given)
    for reentrant in (False, True):
        model = make("llama", "phasor").train()
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        model.enable_input_require_grads()
        with recorded_calls() as calls:
            logits, gradients = logits_and_gradients(model, given)
        assert len(calls) == 2 * LAYERS
        assert all(options["causal"] for options in calls)
        assert_close(logits, expected, rtol=1e-4, atol=1e-4)
        assert_close(gradients, expected_gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding", [None, "left"])
def test_compiled(padding):
    given = inputs("mistral", padding)
    expected, expected_gradients = logits_and_gradients(make("mistral"), given)
    model = make("mistral", "phasor")
    model.forward = torch.compile(model.forward, fullgraph=True, backend="aot_eager")
    logits, gradients = logits_and_gradients(model, given)
    assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    assert_close(gradients, expected_gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_packed_sequences(name, rows):
    """Positions that begin anew mean that several sequences lie in one row."""
    ids = batch(None)["input_ids"][:rows]
    positions = torch.cat((torch.arange(7), torch.arange(5))).expand(rows, -1)
    expected = make(name)(ids, position_ids=positions, use_cache=False).logits
    with recorded_calls() as calls:
        logits = make(name, "phasor")(ids, position_ids=positions, use_cache=False).logits
    assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    if rows == 1:
        assert calls[0]["query_starts"].tolist() == [0, 7, 12]


def test_half_precision():
    """As far from float32 as eager is, in bfloat16."""
    given = inputs("llama", "left")
    exact = make("llama")(**given).logits[real_positions(given)]
    eager = make("llama").bfloat16()(**given).logits[real_positions(given)]
    ours = make("llama", "phasor").bfloat16()(**given).logits[real_positions(given)]
    assert ours.dtype is torch.bfloat16
    assert (ours - exact).abs().max() < 2.0 * (eager - exact).abs().max()


def test_dropout_follows_the_seed_and_stops_in_evaluation():
    model, given = make("llama", "phasor", attention_dropout=0.5).train(), inputs("llama", "left")

    def logits(seed):
        torch.manual_seed(seed)
        return model(**given).logits

    assert torch.equal(logits(1), logits(1))
    assert (logits(1) - logits(2)).abs().max() > 1e-2
    model.eval()
    assert torch.equal(logits(1), make("llama", "phasor")(**given).logits)


def test_dropout_keeps_the_mean():
    """The output of attention is linear in its weights: the mean over seeds is that without dropout."""
    model, given = make("llama", "phasor", attention_dropout=0.2, num_hidden_layers=1), inputs("llama", "left")
    seen = []
    model.model.layers[0].self_attn.register_forward_hook(lambda module, args, output: seen.append(output[0].detach()))
    model(**given)
    expected = seen.pop()[real_positions(given)]
    model.train()
    torch.manual_seed(0)
    for _ in range(400):
        model(**given)
    outputs = torch.stack(seen)[:, real_positions(given)]
    error = (outputs.mean(0) - expected).abs()
    assert outputs.std(0).max() > 1e-2
    assert (error < 5.0 * outputs.std(0) / len(seen) ** 0.5 + 1e-5).all()


def test_models_can_be_copied():
    model, given = make("mistral", "phasor"), inputs("mistral", "left")
    assert torch.equal(copy.deepcopy(model)(**given).logits, model(**given).logits)
