"""Generation with attn_implementation="phasor": the tokens of eager, with each kind of cache."""

from __future__ import annotations

import pytest
import torch
import transformers as hf
from tiny_models import GENERATORS, LAYERS, batch, make, recorded_calls
from torch.testing import assert_close

NEW = 10


def generate(model, padding="left", **options):
    torch.manual_seed(0)
    return model.generate(**batch(padding), min_new_tokens=NEW, max_new_tokens=NEW, do_sample=False, **options)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padding", [None, "left"])
@pytest.mark.parametrize("name", GENERATORS)
def test_tokens_are_those_of_eager(name, padding, cache):
    expected = generate(make(name), padding, cache_implementation=cache)
    with recorded_calls() as calls:
        tokens = generate(make(name, "phasor"), padding, cache_implementation=cache)
    # T5: the encoder once, then both attentions of the decoder for each token.
    assert len(calls) == (LAYERS + 2 * LAYERS * NEW if name == "t5" else LAYERS * NEW)
    assert torch.equal(tokens, expected)


def test_without_a_cache():
    assert torch.equal(generate(make("mistral", "phasor"), use_cache=False), generate(make("mistral")))


def test_beam_search():
    assert torch.equal(generate(make("llama", "phasor"), num_beams=3), generate(make("llama"), num_beams=3))


def test_compiled_with_a_static_cache():
    model = make("llama", "phasor")
    expected = generate(model)
    model.forward = torch.compile(model.forward, backend="aot_eager")
    assert torch.equal(generate(model, cache_implementation="static"), expected)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt_oss"])
def test_several_tokens_after_a_cache(name, static):
    """A prompt in three pieces: logits of eager without a cache, also where the window has left keys behind."""
    given = batch("left", tokens=14)
    expected = make(name)(**given, use_cache=False).logits
    model = make(name, "phasor")
    cache = hf.StaticCache(model.config, max_cache_len=24) if static else hf.DynamicCache(config=model.config)
    pieces = []
    for start, end in ((0, 6), (6, 11), (11, 14)):
        # Tokens count from the first real one, as without a cache.
        positions = torch.arange(start, end).expand(3, -1)
        mask = given["attention_mask"][:, :end]
        ids = given["input_ids"][:, start:end]
        pieces.append(model(ids, attention_mask=mask, position_ids=positions, past_key_values=cache).logits)
    real = given["attention_mask"].bool()
    assert_close(torch.cat(pieces, 1)[real], expected[real], rtol=1e-4, atol=1e-4)


def test_a_static_cache_is_described_by_an_offset():
    """Not by a mask as wide as the cache."""
    with recorded_calls() as calls:
        generate(make("llama", "phasor"), None, cache_implementation="static")
    assert all(options.get("mask") is None and options["causal"] for options in calls)
    assert calls[-1]["query_offsets"].tolist() == [12 + NEW - 2]
