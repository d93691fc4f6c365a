#!/usr/bin/env python3
"""Tiny random Llama and Qwen3 of transformers, as their own save_pretrained writes them, with what they compute.

Beside each model's files: expected.safetensors with tokens, logits, and the gradients of all weights by the mean
cross-entropy of the next token. llama_bf16 is the Llama in bfloat16, with logits in bfloat16 and those of the same weights in
float32. Run by `make goldens`.
"""
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

FOLDER = pathlib.Path(__file__).resolve().parent / "pretrained"
SIZES = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}


def write(name, model, **saving):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    with torch.no_grad():
        for parameter in model.parameters():  # fresh ones are so small that attention is even
            if parameter.dim() == 2:
                parameter.mul_(8.0)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder, **saving)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(0, 61, (2, 19))
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 61), tokens[:, 1:].reshape(-1))
    loss.backward()
    expected = {"tokens": tokens.to(torch.int32), "logits": logits.detach(), "loss": loss.detach().reshape(1)}
    for key, parameter in model.named_parameters():
        expected["gradient." + key] = parameter.grad
    with torch.no_grad():
        written = model.generate(tokens[:1, :7], max_new_tokens=12, do_sample=False)
    expected["generated"] = written[:, 7:].to(torch.int32)
    save_file({key: value.contiguous().clone() for key, value in expected.items()}, folder / "expected.safetensors")


def write_bf16(name, of):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model = LlamaForCausalLM.from_pretrained(FOLDER / of, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = load_file(FOLDER / of / "expected.safetensors")["tokens"]
    with torch.no_grad():
        logits = model(tokens.long()).logits.float()
        in_float = model.float()(tokens.long()).logits
    save_file({"tokens": tokens, "logits": logits, "logits_in_float": in_float}, folder / "expected.safetensors")


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    write("llama", LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LLAMA3, attention_bias=True)))
    write("qwen3", Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True)), max_shard_size="16KB")
    write_bf16("llama_bf16", "llama")


main()
