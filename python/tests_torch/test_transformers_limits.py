"""phasor.transformers: what it refuses, and what it leaves to the model's eager function."""

from __future__ import annotations

import types
import warnings

import phasor.transformers
import pytest
import torch
import transformers as hf
from phasor.transformers import _attention, _models, _register
from tiny_models import LAYERS, inputs, make, real_positions, recorded_calls
from torch.testing import assert_close

_SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
# They add ALiBi (or hashing, or relative positions) in code of their own.
OTHERS = {
    "bloom": (hf.BloomForCausalLM, lambda: hf.BloomConfig(vocab_size=50, hidden_size=32, n_layer=1, n_head=4)),
    "mpt": (hf.MptForCausalLM, lambda: hf.MptConfig(vocab_size=50, d_model=32, n_layers=1, n_heads=4)),
    "falcon": (hf.FalconForCausalLM, lambda: hf.FalconConfig(**_SMALL)),
    "gptj": (hf.GPTJForCausalLM, lambda: hf.GPTJConfig(vocab_size=50, n_embd=32, n_layer=1, n_head=4, rotary_dim=4)),
    "deberta": (hf.DebertaV2Model, lambda: hf.DebertaV2Config(**_SMALL, intermediate_size=32)),
    "longt5": (hf.LongT5Model, lambda: hf.LongT5Config(vocab_size=50, d_model=32, num_layers=1, num_heads=4, d_kv=8)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_models_with_attention_of_their_own_raise(name):
    model_class, config_of = OTHERS[name]
    config = config_of()
    config._attn_implementation = "phasor"
    with pytest.raises(ValueError, match=f'attn_implementation: "phasor" for {model_class.__name__}, expected "eager"'):
        model_class(config)


@pytest.mark.parametrize("name", ["bloom", "falcon"])
def test_and_cannot_be_changed_to_it(name):
    model_class, config_of = OTHERS[name]
    model = model_class(config_of())
    before = model.config._attn_implementation
    with pytest.raises(ValueError, match=r'attn_implementation: "phasor" for'):
        model.set_attn_implementation("phasor")
    assert model.config._attn_implementation == before


def test_models_are_loaded_with_it(tmp_path):
    make("llama").save_pretrained(tmp_path / "llama")
    model = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "llama", attn_implementation="phasor")
    with recorded_calls() as calls:
        model(**inputs("llama", None))
    assert len(calls) == LAYERS
    model_class, config_of = OTHERS["bloom"]
    model_class(config_of()).save_pretrained(tmp_path / "bloom")
    with pytest.raises(ValueError, match='attn_implementation: "phasor" for Bloom'):
        hf.AutoModelForCausalLM.from_pretrained(tmp_path / "bloom", attn_implementation="phasor")


def test_a_part_of_a_model():
    """The vision model has attention of its own; the language model has not."""
    vision = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "output_channels": 8, "mlp_dim": 16}
    text = {**_SMALL, "model_type": "qwen2", "intermediate_size": 32, "num_key_value_heads": 2}

    def config(implementation):
        return hf.GotOcr2Config(vision_config=vision, text_config=text, attn_implementation=implementation)

    with pytest.raises(ValueError, match='attn_implementation: "phasor" for GotOcr2'):
        hf.GotOcr2ForConditionalGeneration(config("phasor"))
    model = hf.GotOcr2ForConditionalGeneration(config({"text_config": "phasor"}))
    with recorded_calls() as calls:
        model(torch.arange(3, 9)[None])
    assert len(calls) == 1


def test_a_model_can_be_changed_and_changed_back():
    model, given = make("llama"), inputs("llama", "left")
    model.set_attn_implementation("phasor")
    with recorded_calls() as calls:
        model(**given)
        model.set_attn_implementation("eager")
        model(**given)
    assert len(calls) == LAYERS


def test_registering_again_changes_nothing():
    before = hf.PreTrainedModel.set_attn_implementation
    phasor.transformers.register()
    assert hf.PreTrainedModel.set_attn_implementation is before


def test_versions():
    assert hf.__version__.startswith(("5.22.", "5.23.")) and phasor.transformers.VERSIONS == ">=5.22,<5.24"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _register._check_version(hf.__version__)
    with pytest.raises(ImportError, match=r"transformers: version 5\.21\.3, expected >=5\.22,<5\.24"):
        _register._check_version("5.21.3")
    with pytest.warns(UserWarning, match=r"this is 6\.0\.0\.dev0"):
        _register._check_version("6.0.0.dev0")
    with warnings.catch_warnings():  # one message, however often
        warnings.simplefilter("error")
        _register._check_version("6.0.0.dev0")


# Attention that is sparse by a keyword, or by a table of classes that has no "phasor".
REFUSED = {
    "DeepseekV32Model": "hands indices to the attention function",
    "GlmMoeDsaModel": "hands indices to the attention function",
    "AXK2Model": "hands indices to the attention function",
    "MiniMaxM3VLTextModel": "hands block_indices to the attention function",
    "DeepseekOcr2Model": "classes of its own for eager, sdpa",
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_hand_on_more_raise(name):
    with pytest.raises(ValueError, match=f'"phasor" for {name}, expected "eager" or "sdpa": it .*{REFUSED[name]}'):
        _models.check_model(getattr(hf, name))


@pytest.mark.parametrize("name", ["DacModel", "EncodecModel", "PocketTTSAudioTokenizerModel"])
def test_the_base_of_audio_tokenizers_is_no_reason(name):
    if hasattr(hf, name):  # the last is in transformers from 5.23 on
        _models.check_model(getattr(hf, name))


def test_keywords_that_eager_does_not_read_change_nothing():
    """Models hand down what they were called with, such as the sizes of images."""
    model, given = make("llama", "phasor"), inputs("llama", None)
    assert torch.equal(model(**given, image_sizes=torch.ones(3, 2)).logits, model(**given).logits)


def eager_with_blocks(module, query, key, value, attention_mask, blocks=None, **kwargs):
    return query if blocks is None else blocks


def eager_that_hands_on(module, query, key, value, attention_mask, **kwargs):
    return eager_with_blocks(module, query, key, value, attention_mask, **kwargs)


@pytest.mark.parametrize("eager", [eager_with_blocks, eager_that_hands_on])
def test_keywords_that_eager_may_read_are_refused(eager, monkeypatch):
    class Sparse(torch.nn.Module):
        def forward(self):
            pass

    monkeypatch.setitem(globals(), "eager_attention_forward", eager)
    x = torch.randn(1, 2, 3, 4)
    with pytest.raises(NotImplementedError, match=r"blocks: a tensor of shape \[3\] from Sparse, expected none"):
        _attention.attention_forward(Sparse(), x, x, x, None, is_causal=True, blocks=torch.zeros(3))


def test_an_unknown_tensor_is_refused():
    module, x = torch.nn.Linear(1, 1), torch.randn(1, 2, 3, 4)
    known = {"position_ids": torch.arange(3), "use_cache": True, "indices": None}
    out, _ = _attention.attention_forward(module, x, x, x, None, is_causal=True, **known)
    assert out.shape == (1, 3, 2, 4)
    with pytest.raises(NotImplementedError, match=r"indices: a tensor of shape \[1, 3, 2\] from Linear, expected none"):
        _attention.attention_forward(module, x, x, x, None, is_causal=True, indices=torch.zeros(1, 3, 2))


def eager_run(change, reason, **arguments):
    """A model that leaves attention to its eager function: logits beside those of eager."""
    given = inputs("gemma2", None)  # eager itself gives NaN for padding in float64
    expected = change(make("gemma2"))(**given, **arguments)
    with recorded_calls() as calls, pytest.warns(UserWarning, match=reason):
        output = change(make("gemma2", "phasor"))(**given, **arguments)
    assert not calls
    assert_close(output.logits[real_positions(given)], expected.logits[real_positions(given)], rtol=1e-6, atol=1e-6)
    return output, expected


def test_weights_come_from_eager():
    text = "Gemma2Attention runs its eager attention, not phasor: output_attentions"
    output, expected = eager_run(lambda model: model, text, output_attentions=True)
    assert len(output.attentions) == LAYERS
    assert_close(output.attentions, expected.attentions)


def test_float64_goes_to_eager():
    eager_run(lambda model: model.double(), "the tensors are float64")


def test_the_warning_is_given_once():
    model, given = make("llama", "phasor").double(), inputs("llama", "left")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        model(**given)
        model(**given)
    assert len(seen) == 1


def test_another_device_goes_to_eager():
    on_gpu = types.SimpleNamespace(is_cpu=False, is_meta=False, device=torch.device("cuda"))
    assert _attention._why_not(on_gpu, None, {}) == "the tensors are on cuda, and phasor is for the CPU"


def test_whole_numbers_as_a_mask_go_to_eager():
    model, given = make("llama", "phasor"), inputs("llama", None)
    hidden = ~torch.ones(12, 12, dtype=torch.bool).tril()
    mask = torch.zeros(3, 1, 12, 12, dtype=torch.int64).masked_fill(hidden, -10000)
    with pytest.warns(UserWarning, match="the mask is int64"):
        logits = model(given["input_ids"], attention_mask=mask).logits
    assert_close(logits, make("llama")(**given).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_mask_that_the_caller_made(kind):
    given = inputs("llama", None)
    visible = (torch.rand(3, 1, 12, 12, generator=torch.Generator().manual_seed(1)) < 0.5) | torch.eye(12).bool()
    added = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
    expected = make("llama")(given["input_ids"], attention_mask=added).logits
    mask = visible if kind == "bool" else added
    assert_close(
        make("llama", "phasor")(given["input_ids"], attention_mask=mask).logits, expected, rtol=1e-4, atol=1e-4
    )


def attend(mask, bias=None, causal=True, dtype=torch.float32, tokens=5):
    """attention_forward by itself, and the eager function of T5 with the same."""
    module = make("t5", "phasor").encoder.block[0].layer[0].SelfAttention
    module.is_causal = causal
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(2, 4, tokens, 8, dtype=dtype, generator=generator) for _ in range(3))
    ours = _attention.attention_forward(module, q, k, v, mask, scaling=0.3, position_bias=bias)[0]
    eager = _attention._eager(module, "a test")
    return ours, lambda added: eager(module, q, k, v, added, scaling=0.3, position_bias=bias)[0]


CAUSAL = torch.zeros(1, 1, 5, 5).masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -torch.inf)
BIAS = torch.randn(1, 4, 5, 5, generator=torch.Generator().manual_seed(9))


@pytest.mark.filterwarnings("ignore:T5Attention runs")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [None, BIAS])
def test_no_mask_on_a_causal_module_is_causal(bias, dtype):
    bias = bias if bias is None else bias.to(dtype)
    ours, eager = attend(None, bias, dtype=dtype)
    assert_close(ours, eager(CAUSAL.to(dtype)), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:T5Attention runs")
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_a_bias_beside_a_mask(rows, kind):
    visible = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril() if rows else torch.tensor([[[[0, 1, 1, 1, 0]]]] * 2) > 0
    added = torch.zeros(visible.shape).masked_fill(~visible, -1e30)
    ours, eager = attend(visible if kind is torch.bool else added, BIAS)
    assert_close(ours, eager(added), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:T5Attention runs")
def test_one_query_without_a_mask_sees_all():
    ours, eager = attend(None, tokens=1)
    assert_close(ours, eager(None))


@pytest.mark.parametrize(
    "dtype, given, message",
    [
        (torch.float64, {}, "cache: a paged one, expected none: the tensors are float64"),
        (torch.float32, {"position_bias": torch.zeros(1, 1, 1, 1)}, "position_bias: given with a paged cache"),
        (torch.float32, {"block_table": torch.zeros(1, 1)}, "block_table: given"),
    ],
)
def test_what_a_paged_cache_cannot_have(dtype, given, message):
    q = torch.zeros(1, 1, 1, 8, dtype=dtype)
    with pytest.raises(NotImplementedError, match=message):
        _attention.attention_forward(torch.nn.Module(), q, q, q, None, cache=object(), **given)


def test_a_module_without_an_eager_function_is_named():
    with pytest.raises(NotImplementedError, match="the tensors are float64, .* Module has no eager function"):
        _attention.attention_forward(torch.nn.Module(), *[torch.zeros(1, 1, 1, 1).double()] * 3, None)
