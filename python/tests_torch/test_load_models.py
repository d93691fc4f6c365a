"""Models of transformers with settings drawn at random, saved in every way and read by phasor.load: the same logits.

tests/golden has one or two models of each architecture; these are many more of the settings that their configs may combine.
"""

import random

import pytest
import torch
import transformers as hf

import phasor

VOCABULARY, LENGTH = 47, 23


def heads(rng):
    """Heads, key heads, channels of a head, and the width."""
    count, size = rng.choice([2, 4, 6]), rng.choice([4, 8])
    return count, rng.choice([n for n in (1, 2, count) if count % n == 0]), size, count * size


def llama_like(rng, **more):
    count, keys, size, width = heads(rng)
    return dict(vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=rng.choice([1, 3]), num_attention_heads=count,
                num_key_value_heads=keys, intermediate_size=rng.choice([20, 33]), max_position_embeddings=64,
                rms_norm_eps=rng.choice([1e-6, 1e-3]), tie_word_embeddings=rng.random() < 0.5, bos_token_id=1, eos_token_id=2,
                pad_token_id=0, **more)


def plain(rng, **more):
    config = llama_like(rng, **more)
    for key in ("num_key_value_heads", "rms_norm_eps"):
        del config[key]
    return config


def yarn(rng):
    kinds = [{"rope_type": "default", "rope_theta": 1e4}, {"rope_type": "linear", "rope_theta": 1e5, "factor": 2.0},
             {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}]
    return rng.choice(kinds)


def wide_heads(rng):
    """A width that is not heads times channels."""
    return {"head_dim": rng.choice([4, 10])}


MODELS = {
    "llama": lambda rng: hf.LlamaForCausalLM(hf.LlamaConfig(
        **llama_like(rng, attention_bias=rng.random() < 0.5, mlp_bias=rng.random() < 0.5, rope_parameters=yarn(rng),
                     **wide_heads(rng)))),
    "mistral": lambda rng: hf.MistralForCausalLM(hf.MistralConfig(
        **llama_like(rng, sliding_window=rng.choice([None, 7, 64]), **wide_heads(rng)))),
    "qwen2": lambda rng: hf.Qwen2ForCausalLM(hf.Qwen2Config(
        **llama_like(rng, use_sliding_window=rng.random() < 0.5, sliding_window=5, max_window_layers=1))),
    "qwen3": lambda rng: hf.Qwen3ForCausalLM(hf.Qwen3Config(**llama_like(rng, attention_bias=rng.random() < 0.5,
                                                                         **wide_heads(rng)))),
    "smollm3": lambda rng: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(
        **llama_like(rng, no_rope_layer_interval=rng.choice([2, 3]), attention_bias=rng.random() < 0.5))),
    "phi3": lambda rng: hf.Phi3ForCausalLM(hf.Phi3Config(
        **llama_like(rng, original_max_position_embeddings=64, sliding_window=rng.choice([None, 6])))),
    "gemma2": lambda rng: hf.Gemma2ForCausalLM(hf.Gemma2Config(
        **llama_like(rng, query_pre_attn_scalar=rng.choice([4, 9]), sliding_window=6, attn_logit_softcapping=rng.choice([None, 5.0]),
                     final_logit_softcapping=rng.choice([None, 4.0]), **wide_heads(rng)))),
    "gemma3_text": lambda rng: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(
        **llama_like(rng, query_pre_attn_scalar=rng.choice([4, 9]), sliding_window=6, **wide_heads(rng)))),
    "gpt2": lambda rng: hf.GPT2LMHeadModel(hf.GPT2Config(
        vocab_size=VOCABULARY, n_embd=24, n_layer=rng.choice([1, 3]), n_head=rng.choice([2, 3, 4]), n_positions=64,
        n_inner=rng.choice([None, 40]), activation_function=rng.choice(["gelu_new", "relu", "gelu"]),
        tie_word_embeddings=rng.random() < 0.5)),
    "gpt_neox": lambda rng: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(
        **plain(rng, rotary_pct=rng.choice([0.5, 1.0]), use_parallel_residual=rng.random() < 0.5,
                attention_bias=rng.random() < 0.5))),
    "bloom": lambda rng: hf.BloomForCausalLM(hf.BloomConfig(
        vocab_size=VOCABULARY, hidden_size=24, n_layer=rng.choice([1, 3]), n_head=rng.choice([2, 3, 4, 6]))),
    "mpt": lambda rng: hf.MptForCausalLM(hf.MptConfig(
        vocab_size=VOCABULARY, d_model=24, n_layers=rng.choice([1, 3]), n_heads=rng.choice([2, 3, 4, 6]), max_seq_len=64)),
    "bert": lambda rng: hf.BertForMaskedLM(hf.BertConfig(**plain(rng, hidden_act=rng.choice(["gelu", "relu", "gelu_new"]),
                                                                 type_vocab_size=rng.choice([1, 2])))),
    "roberta": lambda rng: hf.RobertaForMaskedLM(hf.RobertaConfig(**plain(rng) | {"pad_token_id": rng.choice([1, 3])})),
    "modernbert": lambda rng: hf.ModernBertForMaskedLM(hf.ModernBertConfig(
        **plain(rng, local_attention=rng.choice([6, 128]), global_attn_every_n_layers=rng.choice([2, 3]),
                norm_bias=rng.random() < 0.5, attention_bias=rng.random() < 0.5, mlp_bias=rng.random() < 0.5,
                cls_token_id=1, sep_token_id=2))),
}


def disturb(model):
    """Fresh weights are so small that attention is even and norms do nothing."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(4.0)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MODELS)
def test_logits(name, seed, tmp_path):
    rng = random.Random(f"{name} {seed}")
    torch.manual_seed(seed)
    model = MODELS[name](rng).eval()
    disturb(model)
    model.to([torch.float32, torch.float32, torch.bfloat16, torch.float16][seed])
    model.save_pretrained(tmp_path, max_shard_size="20KB" if seed == 1 else "5GB")
    model = type(model).from_pretrained(tmp_path, dtype=torch.float32).eval()  # .float() would keep rounded frequencies
    tokens = torch.tensor([rng.randrange(4, VOCABULARY) for _ in range(LENGTH)])
    with torch.no_grad():
        expected = model(tokens[None]).logits[0]
    found = torch.from_numpy(phasor.load(tmp_path, precision="float").logits(tokens.numpy()))
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()
