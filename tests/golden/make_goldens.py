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
read them as float, or as double and then round to float.
"""
import copy, importlib, inspect, json, pathlib, warnings

import numpy
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

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
    """The rotary object of a config.json, its (text) configuration and its rotating function."""
    model_type = config["model_type"]
    whole = CONFIG_MAPPING[model_type](**{k: v for k, v in copy.deepcopy(config).items() if k != "model_type"})
    text = whole if model_type in ROTARY else whole.get_text_config()
    module, rotary, apply = ROTARY[text.model_type]
    module = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    return getattr(module, rotary)(config=text), text, getattr(module, apply)


def run(rotary, axes, layer_type=None):
    """Forward on the given coordinates, (axes x tokens); a float32 x asks for float32 tables."""
    if "Vision" in type(rotary).__name__:
        ids = torch.tensor(axes).T                          # tokens x (row, column)
        if type(rotary).__name__.startswith("Pixtral"):
            ids = ids[None]
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
    rotary, text, apply = build(config)
    if length:
        positions = (0, 1, length // 2, length - 1)
    coordinates = axes or [list(positions)]
    table = run(rotary, coordinates, layer_type)
    cos, sin = (table.real, table.imag) if torch.is_tensor(table) else table
    cos, sin = distinct(cos.reshape(-1, cos.shape[-1]), sin.reshape(-1, sin.shape[-1]))
    prefix = f"{layer_type}_" if layer_type else ""
    # the last token that has a clear angle in the first pair shows the pairing
    one = [[5] for _ in coordinates]
    pairing = pairing_of(apply, run(build(config)[0], one, layer_type), cos.shape[-1])
    if config.get("rope_interleave") is False:
        pairing = "half"                                     # the attention then takes the plain function
    result = {"name": name, "config": config, "layer_type": layer_type, "length": length, "pairing": pairing,
              "inv_freq": short(getattr(rotary, prefix + "inv_freq")),
              "attention_scaling": float(getattr(rotary, prefix + "attention_scaling")),
              "positions": None if axes else list(positions)}
    if axes:
        result["positions_axes"] = axes
    if note:
        result["note"] = note
    return {**result, "cos": short(cos), "sin": short(sin)}
