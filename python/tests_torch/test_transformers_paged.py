"""Continuous batching with transformers' paged cache: the tokens of each prompt generated alone."""

from __future__ import annotations

import phasor.transformers
import pytest
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

SIZES = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "eos_token_id": None,
}


@pytest.mark.parametrize(
    "config, model_class",
    [(LlamaConfig(**SIZES), LlamaForCausalLM), (MistralConfig(**SIZES, sliding_window=20), MistralForCausalLM)],
)
def test_same_tokens_as_one_by_one(config, model_class):
    phasor.transformers.register()
    torch.manual_seed(3)
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    prompts = [torch.randint(1, 97, (length,)).tolist() for length in (40, 3, 17, 70)]
    expected = [
        model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :].tolist()
        for prompt in prompts
    ]
    model.set_attn_implementation("phasor")
    settings = GenerationConfig(max_new_tokens=12, do_sample=False, eos_token_id=-1, pad_token_id=0)
    results = model.generate_batch(prompts, generation_config=settings)
    assert model.config._attn_implementation == "phasor"
    by_prompt = {tuple(result.prompt_ids): result for result in results.values()}
    assert [by_prompt[tuple(prompt)].generated_tokens for prompt in prompts] == expected
