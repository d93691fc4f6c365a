#!/usr/bin/env python3
"""Tiny random models of transformers, one for each architecture that phasor reads, and what they compute.

In each folder: the model as its own save_pretrained writes it, gradients.safetensors (of all weights, by the mean
cross-entropy of the next token, or of the token itself in encoders), and expected.safetensors: tokens, logits, loss,
states of an encoder, generated tokens. Run by `make goldens`.

    make_architectures.py [NAME ...]
"""
import pathlib
import shutil
import sys

import torch
import transformers as hf
from safetensors import safe_open
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).resolve().parent / "architectures"
VOCABULARY, LENGTH, PROMPT = 41, 19, 7
IDS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
SIZES = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
             max_position_embeddings=64, **IDS)
GROUPED = dict(SIZES, num_key_value_heads=2)
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.5], "long_factor": [1.0, 4.0],
            "original_max_position_embeddings": 32}
OLD_NAMES = {"lm_head.weight": "embed_out.weight"}
GLOBAL_AND_LOCAL = {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}


def causal(name):
    return {
        "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**GROUPED, tie_word_embeddings=False)),
        "qwen2_window": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(
            **GROUPED, use_sliding_window=True, sliding_window=5, max_window_layers=1, tie_word_embeddings=True)),
        "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=6)),
        "smollm3": lambda: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(
            **dict(GROUPED, num_hidden_layers=4), no_rope_layer_interval=2)),
        "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(
            **dict(GROUPED, max_position_embeddings=64), original_max_position_embeddings=32,
            rope_parameters=LONGROPE, sliding_window=9)),
        "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(
            **GROUPED, head_dim=8, query_pre_attn_scalar=6, sliding_window=5, attn_logit_softcapping=4.0,
            final_logit_softcapping=3.0)),
        "gemma3_text": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(
            **dict(GROUPED, num_hidden_layers=3), head_dim=8, query_pre_attn_scalar=10, sliding_window=5,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters=GLOBAL_AND_LOCAL)),
        "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(
            vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, **IDS)),
        "gpt_neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SIZES, rotary_pct=0.5)),
        "gpt_neox_sequential": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(
            **SIZES, rotary_pct=1.0, use_parallel_residual=False, attention_bias=False)),
        "bloom": lambda: hf.BloomForCausalLM(hf.BloomConfig(
            vocab_size=VOCABULARY, hidden_size=24, n_layer=2, n_head=6, hidden_dropout=0.0, attention_dropout=0.0,
            **IDS)),
        "mpt": lambda: hf.MptForCausalLM(hf.MptConfig(
            vocab_size=VOCABULARY, d_model=24, n_layers=2, n_heads=6, expansion_ratio=4, max_seq_len=64, **IDS)),
    }[name]()


CAUSAL = ["qwen2", "qwen2_window", "mistral", "smollm3", "phi3", "gemma2", "gemma3_text", "gpt2", "gpt_neox",
          "gpt_neox_sequential", "bloom", "mpt"]


def masked(name):
    no_dropout = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return {
        "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**SIZES, **no_dropout)),
        "bert_states": lambda: hf.BertModel(hf.BertConfig(**SIZES, **no_dropout)),
        "roberta": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(
            **dict(SIZES, pad_token_id=1, bos_token_id=0), type_vocab_size=1, **no_dropout)),
        "modernbert": lambda: hf.ModernBertForMaskedLM(hf.ModernBertConfig(
            **dict(SIZES, num_hidden_layers=4), local_attention=8, cls_token_id=1, sep_token_id=2,
            global_attn_every_n_layers=3)),
    }[name]()


MASKED = ["bert", "bert_states", "roberta", "modernbert"]


def disturb(model, factor=6.0):
    """Fresh weights are so small that attention is even and norms do nothing."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue  # Marian's sines and cosines
            if parameter.dim() == 2:
                parameter.mul_(factor)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))


def save(name, model, expected):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    stored = safe_open(folder / "model.safetensors", "pt").keys()  # which has old names of a few weights
    gradients = {key if key in stored else OLD_NAMES[key]: parameter.grad.contiguous().clone() for key, parameter in model.named_parameters()
                 if parameter.grad is not None}
    if gradients:
        save_file(gradients, folder / "gradients.safetensors")
    save_file({key: value.detach().contiguous().clone() for key, value in expected.items()},
              folder / "expected.safetensors")


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))


def write_causal(name):
    model = causal(name).eval()
    disturb(model)
    tokens = torch.randint(3, VOCABULARY, (2, LENGTH))
    logits = model(tokens).logits
    loss = loss_of(logits[:, :-1], tokens[:, 1:])
    loss.backward()
    with torch.no_grad():
        written = model.generate(tokens[:1, :PROMPT], attention_mask=torch.ones(1, PROMPT), max_new_tokens=20,
                                 do_sample=False)
    save(name, model, {"tokens": tokens.to(torch.int32), "logits": logits, "loss": loss.reshape(1),
                       "generated": written[:, PROMPT:].to(torch.int32)})


def write_masked(name):
    model = masked(name).eval()
    disturb(model)
    tokens = torch.randint(3, VOCABULARY, (2, LENGTH))
    lengths = torch.tensor([LENGTH, LENGTH - 6])
    mask = (torch.arange(LENGTH)[None] < lengths[:, None]).to(torch.int64)
    # RoBERTa counts positions from the padding in the tokens themselves.
    padded = torch.where(mask.bool(), tokens, model.config.pad_token_id)
    encoder = model.base_model
    with torch.no_grad():
        states = encoder(padded, attention_mask=mask).last_hidden_state
    expected = {"tokens": tokens.to(torch.int32), "lengths": lengths, "states": states}
    if encoder is not model:
        logits = model(tokens).logits
        loss = loss_of(logits, tokens.roll(1, dims=1))
        loss.backward()
        expected |= {"logits": logits, "loss": loss.reshape(1)}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        types = (torch.arange(LENGTH) > 4).to(torch.int64)[None].expand(2, -1)
        with torch.no_grad():
            of_types = encoder(padded, attention_mask=mask, token_type_ids=types).last_hidden_state
        expected |= {"token_types": types.to(torch.int32), "states_of_types": of_types}
    save(name, model, expected)


def translating(name):
    return {
        "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(
            vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=3, dropout_rate=0.0,
            relative_attention_num_buckets=8, relative_attention_max_distance=12, decoder_start_token_id=0,
            eos_token_id=1, pad_token_id=0)),
        "t5_gated": lambda: hf.T5ForConditionalGeneration(hf.T5Config(
            vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=3,
            dropout_rate=0.0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
            relative_attention_num_buckets=8, relative_attention_max_distance=12, decoder_start_token_id=0,
            eos_token_id=1, pad_token_id=0)),
        "marian": lambda: hf.MarianMTModel(hf.MarianConfig(
            vocab_size=VOCABULARY, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=24, activation_function="swish",
            scale_embedding=True, max_position_embeddings=64, dropout=0.0, attention_dropout=0.0,
            decoder_start_token_id=40, pad_token_id=40, eos_token_id=0, bos_token_id=None, forced_eos_token_id=None)),
    }[name]()


TRANSLATING = ["t5", "t5_gated", "marian"]


def write_translating(name):
    model = translating(name).eval()
    disturb(model, 6.0 if name == "marian" else 1.0)  # T5's are large: its scores are not divided by sqrt(D)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.copy_(0.3 * torch.randn_like(model.final_logits_bias))
    source = torch.randint(3, VOCABULARY - 1, (2, LENGTH))
    target = torch.randint(3, VOCABULARY - 1, (2, 11))
    lengths = torch.tensor([LENGTH, LENGTH - 6])
    mask = (torch.arange(LENGTH)[None] < lengths[:, None]).to(torch.int64)
    with torch.no_grad():
        result = model(input_ids=source, attention_mask=mask, decoder_input_ids=target)
        written = model.generate(source[:1], attention_mask=mask[:1], max_new_tokens=16, do_sample=False, num_beams=1)
    save(name, model, {"source": source.to(torch.int32), "lengths": lengths, "target": target.to(torch.int32),
                       "states": result.encoder_last_hidden_state, "logits": result.logits,
                       "generated": written.to(torch.int32)})


def main():
    torch.set_num_threads(1)
    chosen = sys.argv[1:] or CAUSAL + MASKED + TRANSLATING
    for name in chosen:
        torch.manual_seed(sum(map(ord, name)))
        write = write_causal if name in CAUSAL else write_masked if name in MASKED else write_translating
        write(name)
        print(name)


main()
