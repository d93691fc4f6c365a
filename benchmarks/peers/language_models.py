#!/usr/bin/env python3
"""Measure how fast phasor, transformers, CTranslate2 and llama.cpp read a prompt and write, with one and the same model.

    make bench-models                     SmolLM2-135M (make smollm2), two threads

A Llama in the files of Hugging Face is given to each engine in its own format: CTranslate2's and GGUF files are made beside it once.
Every engine reads a prompt of 512 tokens and then writes 128, greedily; engines take turns, each in a process of its own, and a
cell is the best (median) of the rounds in tokens/s. `same` counts how many of the first written tokens are those of phasor in
float. An engine that is not installed is left out, by name.
"""
import argparse
import json
import multiprocessing
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave no __pycache__ in the sources
import compare

PROMPT, WRITTEN = 512, 128


def prompt_tokens(vocabulary):
    """Any tokens will do: what is computed does not depend on them."""
    return [(7919 * i + 31) % (vocabulary - 100) + 50 for i in range(PROMPT)]


class Rates:
    """Tokens per second of a prompt and of writing, and what was written."""

    def __init__(self, prefill_seconds, generation_seconds, tokens):
        self.prefill, self.generation = PROMPT / prefill_seconds, (len(tokens) - 1) / generation_seconds
        self.tokens = list(tokens)


def run_phasor(folder, precision, prompt, threads, tool):
    command = [tool, "generate", endless(folder), "--tokens", ",".join(map(str, prompt)), "--max-tokens", str(WRITTEN), "--stats",
               "--precision", precision]
    environment = {"PHASOR_NUM_THREADS": str(threads), "PATH": "/usr/bin:/bin"}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    numbers = re.findall(r"([\d.,]+) tokens/s", result.stderr)
    if len(numbers) != 2:
        raise compare.Failure(f"phasor --stats: {result.stderr!r}, expected two rates")
    rates = Rates(1, 1, [int(token) for token in result.stdout.split()])
    rates.prefill, rates.generation = (float(number.replace(",", "")) for number in numbers)
    return rates


def endless(folder):
    """The model without tokens that end a text."""
    folder = pathlib.Path(folder).resolve()
    to = folder.with_name(folder.name + "-endless")
    if not to.exists():
        to.mkdir()
        config = json.loads((folder / "config.json").read_text())
        (to / "config.json").write_text(json.dumps({key: value for key, value in config.items() if key != "eos_token_id"}))
        (to / "model.safetensors").symlink_to(folder / "model.safetensors")
    return to


def run_transformers(folder, precision, prompt, threads, _):
    import torch
    import transformers

    torch.set_num_threads(threads)
    dtype = {"float": torch.float32, "bf16": torch.bfloat16}[precision]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").eval()
    with torch.inference_mode():
        model(torch.tensor([prompt[:8]]))  # warm
        begin = time.perf_counter()
        output = model(torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
        tokens, read = [int(output.logits[0, -1].argmax())], time.perf_counter()
        while len(tokens) < WRITTEN:
            output = model(torch.tensor([tokens[-1:]]), use_cache=True, past_key_values=output.past_key_values)
            tokens.append(int(output.logits[0, -1].argmax()))
    return Rates(read - begin, time.perf_counter() - read, tokens)


def run_ctranslate2(folder, precision, prompt, threads, _):
    import ctranslate2

    generator = ctranslate2.Generator(str(ctranslate2_folder(folder)), device="cpu", inter_threads=1, intra_threads=threads,
                                      compute_type={"float": "float32", "int8": "int8"}[precision])
    names = [str(token) for token in prompt]
    options = dict(sampling_topk=1, include_prompt_in_result=False, end_token=[])
    generator.generate_batch([names[:8]], max_length=1, **options)  # warm
    begin = time.perf_counter()
    generator.generate_batch([names], max_length=1, min_length=1, **options)
    read = time.perf_counter()
    result = generator.generate_batch([names], max_length=WRITTEN, min_length=WRITTEN, **options)[0]
    end = time.perf_counter()
    return Rates(read - begin, end - read - (read - begin), [int(name) for name in result.sequences[0]])


def run_llama_cpp(folder, precision, prompt, threads, _):
    import llama_cpp

    model = llama_cpp.Llama(str(gguf_file(folder, precision)), n_ctx=PROMPT + WRITTEN, n_batch=PROMPT, n_threads=threads,
                            n_threads_batch=threads, verbose=False, logits_all=False)
    model.eval(prompt[:8])  # warm
    model.reset()
    begin = time.perf_counter()
    model.eval(prompt)
    tokens, read = [model.sample(temp=0.0)], time.perf_counter()
    while len(tokens) < WRITTEN:
        model.eval(tokens[-1:])
        tokens.append(model.sample(temp=0.0))
    return Rates(read - begin, time.perf_counter() - read, tokens)


def read_model(folder):
    """The config, and the tensors as float32 arrays."""
    import torch
    from safetensors.torch import load_file

    tensors = load_file(pathlib.Path(folder) / "model.safetensors")
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    return config, {name: tensor.to(torch.float32).numpy() for name, tensor in tensors.items()}


def ctranslate2_folder(folder):
    """The model as CTranslate2's converter writes it, with token ids as tokens."""
    to = pathlib.Path(folder).with_name(pathlib.Path(folder).name + "-ctranslate2")
    if not to.exists():
        import ctranslate2.converters
        import transformers

        class Ids:  # the converter asks a tokenizer only for the tokens' names
            def __init__(self, size):
                self.size, self.bos_token, self.eos_token, self.unk_token = size, "0", "0", "0"

            def get_vocab(self):
                return {str(i): i for i in range(self.size)}

        size = transformers.AutoConfig.from_pretrained(folder).vocab_size

        class Converter(ctranslate2.converters.TransformersConverter):
            def load_tokenizer(self, tokenizer_class, model_name_or_path, **kwargs):
                return Ids(size)

        Converter(str(folder)).convert(str(to))
    return to


def gguf_file(folder, precision):
    """The model as llama.cpp reads it, without a tokenizer."""
    path = pathlib.Path(folder).with_name(f"{pathlib.Path(folder).name}-{precision}.gguf")
    if path.exists():
        return path
    import gguf
    import numpy as np

    config, tensors = read_model(folder)
    heads, key_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(path.with_suffix(".part"), "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_rope_freq_base(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    kind = {"float": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16,
            "int8": gguf.GGMLQuantizationType.Q8_0}[precision]
    parts = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    others = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
              "lm_head.weight": "output.weight"}
    for name, values in tensors.items():
        layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.weight", name)
        theirs = f"blk.{layer[1]}.{parts[layer[2]]}.weight" if layer else others[name]
        if layer and layer[2] in ("self_attn.q_proj", "self_attn.k_proj"):  # llama.cpp rotates adjacent pairs
            count = heads if layer[2].endswith("q_proj") else key_heads
            values = values.reshape(count, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        values = np.ascontiguousarray(values)
        if values.ndim == 1 or kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(theirs, values)
        else:
            writer.add_tensor(theirs, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".part").rename(path)
    return path


ENGINES = [("phasor", run_phasor, ("float", "bf16")), ("transformers", run_transformers, ("float", "bf16")),
           ("ctranslate2", run_ctranslate2, ("float", "int8")), ("llama_cpp", run_llama_cpp, ("float", "bf16", "int8"))]


def in_another_process(pipe, run, arguments):
    try:
        pipe.send(run(*arguments))
    except Exception as error:  # said by the parent
        pipe.send(f"{type(error).__name__}: {error}")


def measured(run, arguments):
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=in_another_process, args=(there, run, arguments))
    process.start()
    there.close()
    try:
        result = here.recv()
    except EOFError:
        result = "the process ended"
    process.join()
    return result


def installed(name):
    import importlib.util

    return name == "phasor" or importlib.util.find_spec(name) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a Llama in Hugging Face's files")
    parser.add_argument("--tool", default="build/release/tools/phasor/phasor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    vocabulary = json.loads((pathlib.Path(options.folder) / "config.json").read_text())["vocab_size"]
    prompt = prompt_tokens(vocabulary)
    sides = [(name, run, precision) for name, run, precisions in ENGINES if installed(name) for precision in precisions]
    for name, _, _ in ENGINES:
        if not installed(name):
            print(f"{name}: not installed, left out", file=sys.stderr)
    results = {side: [] for side in sides}
    for number in range(options.rounds):
        for side in list(results):
            name, run, precision = side
            print(f"round {number + 1} of {options.rounds}: {name} {precision}", file=sys.stderr)
            result = measured(run, (options.folder, precision, prompt, options.threads, options.tool))
            if isinstance(result, str):
                print(f"{name} {precision}: {result}; left out", file=sys.stderr)
                del results[side]
            else:
                results[side].append(result)
    ours = results[sides[0]][0].tokens
    print(f"{compare.cpu_name()}, {options.threads} threads, {compare.datetime.date.today()}. Tokens/s, best (median) of "
          f"{options.rounds} rounds.\n\n| engine | prefill of {PROMPT} | generation of {WRITTEN} | same |\n|---|---|---|---|")
    for (name, _, precision), rates in results.items():
        cells = [f"{max(values):,.0f} ({statistics.median(values):,.0f})"
                 for values in ([each.prefill for each in rates], [each.generation for each in rates])]
        same = next((i for i, (a, b) in enumerate(zip(ours, rates[0].tokens)) if a != b), WRITTEN)
        print(f"| {name} {precision} | {' | '.join(cells)} | {same} |")


if __name__ == "__main__":
    try:
        main()
    except compare.Failure as failure:
        sys.exit(f"language_models.py: {failure}")
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
