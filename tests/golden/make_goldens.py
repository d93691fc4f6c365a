#!/usr/bin/env python3
"""Write rope.json: position-encoding numbers taken from Hugging Face transformers itself.

Run it with `make goldens`, which creates a virtual environment holding torch and transformers and
starts this script in it. It needs no network, no weights and no GPU, and takes some seconds.

Nothing here re-implements a formula. Every number comes from the library: a model's configuration
class is fed a config.json, the model's rotary class is built from it, and its forward is run on a few
positions. Each case holds the configuration as given, so a test can read that JSON with its own
parser and must arrive at the same frequencies.

What the file holds, one case a line:
  cases          name, config, layer_type, length (the sequence length that dynamic and longrope saw,
                 else null), pairing, inv_freq, attention_scaling, positions, cos, sin. Rows of cos and
                 sin belong to positions, columns to rotated pairs: "half" pairs channel p with
                 p + rotary_dim/2, "adjacent" pairs 2p with 2p + 1. Where a token has several
                 coordinates, positions is null and positions_axes has one list for each axis.
  dynamic_runs   a sequence of lengths fed to ONE dynamic rotary object, and inv_freq after each.
  gptj           the sine/cosine table of GPT-J, which has no rotary class.
  slopes         ALiBi slopes for 1..129 heads (BLOOM, MPT) and a few of Falcon's bfloat16 ones.
  t5_buckets     T5's relative position buckets for key - query = -300..300.
  rejected       configurations for which the library raises, with the exception it raises.

All tensors are float32. They are written with the fewest digits that give back the same float32, so
read them as float, or as double and then round to float. inv_freq can be reproduced bit for bit with
powf of glibc; torch takes cos and sin from a vector library that is off the nearest float32 by one
unit in the last place in some three of a hundred values, so compare those with a tolerance.
"""
import copy, importlib, inspect, json, os, pathlib, re, sys, warnings

# torch's vector pow rounds about one frequency in eighty otherwise than the C library's powf does, and
# AVX2 otherwise than AVX-512. Its plain kernels call powf, which makes inv_freq the same on every x86-64.
os.environ["ATEN_CPU_CAPABILITY"] = "default"

import numpy
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

sys.dont_write_bytecode = True                              # leave no __pycache__ next to the tests
from rope_cases import DYNAMIC, REJECTED, TEXT3, cases, llama

OUT = pathlib.Path(__file__).with_name("rope.json")
APPLY = "apply_rotary_pos_emb"
INTERLEAVE, COMPLEX = "apply_rotary_pos_emb_interleave", "apply_rotary_emb"
VISION = "apply_rotary_pos_emb_vision"

# model_type of the (text) configuration -> module, rotary class, function that rotates q and k
ROTARY = {
    "apertus": ("apertus", "ApertusRotaryEmbedding", APPLY),
    "cohere": ("cohere", "CohereRotaryEmbedding", APPLY),
    "deepseek_v2": ("deepseek_v2", "DeepseekV2RotaryEmbedding", COMPLEX),
    "deepseek_v3": ("deepseek_v3", "DeepseekV3RotaryEmbedding", INTERLEAVE),
    "deepseek_v4": ("deepseek_v4", "DeepseekV4RotaryEmbedding", APPLY),
    "ernie4_5": ("ernie4_5", "Ernie4_5RotaryEmbedding", APPLY),
    "gemma3_text": ("gemma3", "Gemma3RotaryEmbedding", APPLY),
    "gemma4_text": ("gemma4", "Gemma4TextRotaryEmbedding", APPLY),
    "glm4": ("glm4", "Glm4RotaryEmbedding", APPLY),
    "glm4_moe": ("glm4_moe", "Glm4MoeRotaryEmbedding", APPLY),
    "glm4v_text": ("glm4v", "Glm4vTextRotaryEmbedding", APPLY),
    "gpt_neox": ("gpt_neox", "GPTNeoXRotaryEmbedding", APPLY),
    "gpt_oss": ("gpt_oss", "GptOssRotaryEmbedding", APPLY),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", "HunYuanDenseV1RotaryEmbedding", APPLY),
    "laguna": ("laguna", "LagunaRotaryEmbedding", APPLY),
    "llama": ("llama", "LlamaRotaryEmbedding", APPLY),
    "llama4_text": ("llama4", "Llama4TextRotaryEmbedding", COMPLEX),
    "mimo_v2_flash": ("mimo_v2_flash", "MiMoV2FlashRotaryEmbedding", APPLY),
    "minimax_m2": ("minimax_m2", "MiniMaxM2RotaryEmbedding", APPLY),
    "ministral3": ("ministral3", "Ministral3RotaryEmbedding", APPLY),
    "mistral": ("mistral", "MistralRotaryEmbedding", APPLY),
    "modernbert": ("modernbert", "ModernBertRotaryEmbedding", APPLY),
    "nemotron": ("nemotron", "NemotronRotaryEmbedding", APPLY),
    "olmo3": ("olmo3", "Olmo3RotaryEmbedding", APPLY),
    "phi": ("phi", "PhiRotaryEmbedding", APPLY),
    "phi3": ("phi3", "Phi3RotaryEmbedding", APPLY),
    "pixtral": ("pixtral", "PixtralVisionRotaryEmbedding", APPLY),
    "qwen2": ("qwen2", "Qwen2RotaryEmbedding", APPLY),
    "qwen2_5_vl_text": ("qwen2_5_vl", "Qwen2_5_VLRotaryEmbedding", APPLY),
    "qwen2_vl_text": ("qwen2_vl", "Qwen2VLRotaryEmbedding", APPLY),
    "qwen2_vl_vision": ("qwen2_vl", "Qwen2VLVisionRotaryEmbedding", VISION),
    "qwen3": ("qwen3", "Qwen3RotaryEmbedding", APPLY),
    "qwen3_5_text": ("qwen3_5", "Qwen3_5TextRotaryEmbedding", APPLY),
    "qwen3_next": ("qwen3_next", "Qwen3NextRotaryEmbedding", APPLY),
    "qwen3_vl_text": ("qwen3_vl", "Qwen3VLTextRotaryEmbedding", APPLY),
    "smollm3": ("smollm3", "SmolLM3RotaryEmbedding", APPLY),
    "stablelm": ("stablelm", "StableLmRotaryEmbedding", APPLY),
}


def build(config):
    """The rotary object of a config.json and the function of that model which rotates q and k."""
    model_type = config["model_type"]
    whole = CONFIG_MAPPING[model_type](**{k: v for k, v in copy.deepcopy(config).items() if k != "model_type"})
    text = whole if model_type in ROTARY else whole.get_text_config()
    module, rotary, apply = ROTARY[text.model_type]
    if getattr(text, "rope_interleave", None) is False:
        apply = APPLY                                       # the switch DeepSeek-V3's attention looks at
    module = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    return getattr(module, rotary)(config=text), getattr(module, apply)


def run(rotary, axes, layer_type=None):
    """Forward on the given coordinates, (axes x tokens); a float32 x asks for float32 tables."""
    if "Vision" in type(rotary).__name__:
        ids = torch.tensor(axes).T                          # tokens x (row, column)
    else:
        ids = torch.tensor(axes)[:, None] if len(axes) > 1 else torch.tensor(axes)
    named = {"layer_type": layer_type} if layer_type else {}
    return rotary(torch.zeros(1, dtype=torch.float32), ids, **named)


def rotate(apply, table, vector):
    """One head at one token through the model's own rotating function."""
    names = list(inspect.signature(apply).parameters)
    if "freqs_cis" in names:
        return apply(vector[None, None, None], vector[None, None, None], table)[0].flatten()
    if names[0] == "x":
        return apply(vector[None, None, None], *table).flatten()
    if apply.__name__ == VISION:
        return apply(vector[None, None], vector[None, None], *table)[0].flatten()
    return apply(vector[None, None, None], vector[None, None, None], *table)[0].flatten()


def pairing_of(apply, table, pairs):
    """Which input channel shares its rotation plane with the first rotated channel: measured, not assumed."""
    unit = torch.eye(2 * pairs)
    # DeepSeek writes its pairs in another order than it reads them, so compare where images land.
    where = [set(rotate(apply, table, e).abs().gt(1e-6).nonzero().flatten().tolist()) for e in unit]
    partner = [j for j in range(1, 2 * pairs) if where[j] == where[0]]
    return {1: "adjacent", pairs: "half"}[partner[0]] if len(where[0]) == 2 and len(partner) == 1 else None


def distinct(cos, sin):
    """Keep one column for each pair, whichever way the class repeats them."""
    half = cos.shape[-1] // 2
    if torch.equal(cos[:, :half], cos[:, half:]) and torch.equal(sin[:, :half], sin[:, half:]):
        return cos[:, :half], sin[:, :half]
    if torch.equal(cos[:, 0::2], cos[:, 1::2]) and torch.equal(sin[:, 0::2], sin[:, 1::2]):
        return cos[:, 0::2], sin[:, 0::2]
    return cos, sin                                          # one column a pair already


def short(tensor):
    """Nested lists of the shortest decimals that read back as the same float32."""
    if tensor.dim():
        return [short(t) for t in tensor]
    value = float(str(numpy.float32(tensor.item())))
    assert numpy.float32(value) == numpy.float32(tensor.item())
    return value


def case(name, config, positions=(0, 1, 17, 1000, 4095), layer_type=None, length=None, axes=None, note=None):
    """Measure one configuration. length L makes L-1 the largest position, which is what transformers looks at."""
    rotary, apply = build(config)
    if length:
        positions = (0, 1, length // 2, length - 1)
    assert length or rotary.rope_type not in ("dynamic", "longrope"), f"'{name}' depends on the length"
    coordinates = axes or [list(positions)]
    table = run(rotary, coordinates, layer_type)
    cos, sin = (table.real, table.imag) if torch.is_tensor(table) else table
    cos, sin = distinct(cos.reshape(-1, cos.shape[-1]), sin.reshape(-1, sin.shape[-1]))
    prefix = f"{layer_type}_" if layer_type else ""
    token = run(build(config)[0], [[5] for _ in coordinates], layer_type)
    pairing = pairing_of(apply, token, cos.shape[-1])
    result = {"name": name, "config": config, "layer_type": layer_type, "length": length, "pairing": pairing,
              "inv_freq": short(getattr(rotary, prefix + "inv_freq")),
              "attention_scaling": float(getattr(rotary, prefix + "attention_scaling")),
              "positions": None if axes else list(positions)}
    if axes:
        result["positions_axes"] = axes
    if note:
        result["note"] = note
    return {**result, "cos": short(cos), "sin": short(sin)}


def rejected(name, config):
    try:
        rotary = build(config)[0]
        for kind in getattr(rotary, "layer_types", [None]):
            run(rotary, TEXT3 if hasattr(rotary, "mrope_section") else [[0, 1]], kind)
    except Exception as error:                               # the library raises a dozen kinds
        # some messages print a Python set, whose order changes from run to run
        text = re.sub(r"{('[^{}]*')}", lambda m: "{" + ", ".join(sorted(m[1].split(", "))) + "}", str(error))
        return {"name": name, "config": config, "error": {"type": type(error).__name__, "text": text}}
    raise SystemExit(f"transformers accepts '{name}'")


def dynamic_run(name, config, lengths):
    rotary, result = build(config)[0], []
    for length in lengths:
        run(rotary, [[0, length - 1]])
        result.append(short(rotary.inv_freq))
    return {"name": name, "config": config, "lengths": lengths, "inv_freq": result}


def slopes():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor as bloom
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor as mpt
    two, every = torch.ones(1, 2, dtype=torch.int64), range(1, 130)
    return {"bloom": {n: short(bloom(two, n, torch.float32)[:, 0, 1]) for n in every},
            "mpt": {n: short(-mpt(n, 2)[:, 0, 0].float()) for n in every},
            "falcon": {n: short(falcon(two, n, torch.bfloat16)[:, 0, 1].float()) for n in (1, 6, 12, 71, 128)}}


def t5_buckets():
    from transformers.models.t5.modeling_t5 import T5Attention
    relative = torch.arange(-300, 301)
    return {"relative": relative.tolist(), "num_buckets": 32, "max_distance": 128, **{
        key: T5Attention._relative_position_bucket(relative, both, 32, 128).tolist()
        for key, both in (("bidirectional", True), ("causal", False))}}


def gptj():
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
    positions = [0, 1, 17, 1000, 2047]
    sin, cos = create_sinusoidal_positions(2048, 64)[positions].chunk(2, dim=-1)
    return {"config": {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "rotary_dim": 64}, "pairing": "adjacent",
            "positions": positions, "cos": short(cos), "sin": short(sin)}


def main():
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    runs = [dynamic_run("grow, shrink, reset", llama(rope_scaling=DYNAMIC), [1000, 4096, 3000, 2048, 2047, 3000])]
    lists = {"cases": list(cases(case)),
             "dynamic_runs": runs,
             "rejected": [rejected(*item) for item in REJECTED.items()]}
    flat = {"made_with": {"transformers": transformers.__version__, "torch": torch.__version__,
                          "cpu_capability": torch.backends.cpu.get_cpu_capability()},
            "gptj": gptj(), "slopes": slopes(), "t5_buckets": t5_buckets()}
    dump = lambda value: json.dumps(value, separators=(",", ":"), allow_nan=False)
    parts = [f"{dump(key)}:{dump(value)}" for key, value in flat.items()]
    parts += [f"{dump(key)}:[\n" + ",\n".join(map(dump, value)) + "\n]" for key, value in lists.items()]
    OUT.write_text("{" + ",\n".join(parts) + "}\n")
    print(f"{OUT}: {len(lists['cases'])} cases, {len(lists['rejected'])} rejected, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
