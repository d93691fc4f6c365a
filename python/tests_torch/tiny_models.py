"""Small models of transformers with random weights, for comparing attn_implementation="phasor" with "eager"."""

from __future__ import annotations

import contextlib

import phasor.transformers
import torch
import transformers as hf
from phasor.transformers import _attention

phasor.transformers.register()

VOCABULARY, LAYERS = 97, 3
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 2}
_KINDS = ["sliding_attention", "full_attention", "sliding_attention"]

# name -> class, configuration, calls of attention in a forward pass
MODELS = {
    "llama": (hf.LlamaForCausalLM, lambda: hf.LlamaConfig(**_GROUPED), LAYERS),
    "qwen3": (hf.Qwen3ForCausalLM, lambda: hf.Qwen3Config(**_GROUPED, head_dim=16), LAYERS),
    "mistral": (hf.MistralForCausalLM, lambda: hf.MistralConfig(**_GROUPED, sliding_window=5), LAYERS),
    "gemma2": (
        hf.Gemma2ForCausalLM,
        lambda: hf.Gemma2Config(
            **_GROUPED, head_dim=16, sliding_window=4, attn_logit_softcapping=2.0, layer_types=_KINDS
        ),
        LAYERS,
    ),
    "gpt_oss": (
        hf.GptOssForCausalLM,
        lambda: hf.GptOssConfig(
            **_GROUPED,
            head_dim=16,
            sliding_window=4,
            layer_types=_KINDS,
            num_local_experts=4,
            num_experts_per_tok=2,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        ),
        LAYERS,
    ),
    "gpt2": (
        hf.GPT2LMHeadModel,
        lambda: hf.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=32,
            n_layer=LAYERS,
            n_head=4,
            n_positions=128,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            attn_pdrop=0.0,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
        ),
        LAYERS,
    ),
    "t5": (
        hf.T5ForConditionalGeneration,
        lambda: hf.T5Config(
            vocab_size=VOCABULARY,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=LAYERS,
            num_heads=4,
            dropout_rate=0.0,
            pad_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=0,
            relative_attention_num_buckets=8,
            relative_attention_max_distance=16,
        ),
        3 * LAYERS,  # the encoder's, the decoder's, and between them
    ),
    "bert": (
        hf.BertForMaskedLM,
        lambda: hf.BertConfig(**_SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
        LAYERS,
    ),
    "modernbert": (
        hf.ModernBertForMaskedLM,
        lambda: hf.ModernBertConfig(
            **_SIZES, local_attention=6, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2
        ),
        LAYERS,
    ),
}
GENERATORS = [name for name in MODELS if name not in ("bert", "modernbert")]


def make(name, implementation="eager", **changes):
    """A model whose weights are the same for any implementation, large enough that attention is not nearly uniform."""
    model_class, config_of, _ = MODELS[name]
    config = config_of()
    for key, value in changes.items():
        setattr(config, key, value)
    config._attn_implementation = implementation
    model = model_class(config).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if not key.endswith(("norm.weight", "Norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight")):
                size = 0.5 if parameter.dim() == 1 or "embed" in key else 1.5 * parameter.shape[-1] ** -0.5
                if key.endswith(".q.weight"):  # T5 scales these instead of scores
                    size *= model.config.d_kv**-0.5
                parameter.normal_(0.0, size, generator=generator)
    return model


def batch(padding, tokens=12):
    """input_ids and attention_mask [3, tokens]; padding on the left, on the right, or None."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(3, VOCABULARY, (3, tokens), generator=generator)
    if padding is None:
        return {"input_ids": ids}
    lengths = torch.tensor([tokens, tokens - 5, tokens - 2])[:, None]
    place = torch.arange(tokens)
    mask = place >= tokens - lengths if padding == "left" else place < lengths
    return {"input_ids": ids.where(mask, 0), "attention_mask": mask.long()}


def inputs(name, padding, tokens=12):
    """Of a forward pass."""
    given = batch(padding, tokens)
    if name != "t5":
        return given
    decoder = batch(padding, tokens - 3)
    given["decoder_input_ids"] = decoder["input_ids"]
    if padding is not None:
        given["decoder_attention_mask"] = decoder["attention_mask"]
    return given


def real_positions(given):
    """[B, T] of the logits: which are not padding."""
    ids = given.get("decoder_input_ids", given["input_ids"])
    mask = given.get("decoder_attention_mask" if "decoder_input_ids" in given else "attention_mask")
    return torch.ones(ids.shape, dtype=torch.bool) if mask is None else mask.bool()


@contextlib.contextmanager
def recorded_calls():
    """A list that gets the options of each call of phasor.torch.attention by transformers' models."""
    attention, calls = _attention.attention, []

    def recorded(*tensors, **options):
        calls.append(options)
        return attention(*tensors, **options)

    _attention.attention = recorded
    try:
        yield calls
    finally:
        _attention.attention = attention
