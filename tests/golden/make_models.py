#!/usr/bin/env python3
"""Write models.json: the rotary frequencies of every model type of transformers, from its default configuration.

Run it with `make goldens`. For each configuration class that transformers knows, the model's own rotary class is built
and its frequencies are kept, one line a model type: config (what a config.json with nothing but defaults says), and for
each layer type ("" where there is one rotary embedding for all) the number of pairs and the frequencies. Where the model
has the usual function to rotate q and k, which pairing it has is measured by calling it.

The test reads each config with our reader: it must arrive at the same frequencies and pairing, or refuse.
"""
import importlib, inspect, json, pathlib, sys, warnings

sys.dont_write_bytecode = True
from make_goldens import APPLY, INTERLEAVE, pairing_of, run, short  # sets torch to reproducible arithmetic first

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

OUT = pathlib.Path(__file__).with_name("models.json")
# What a reader of rotary settings may look at; the rest of a config is left out, to keep the file small.
KEYS = ("model_type", "hidden_size", "num_attention_heads", "num_hidden_layers", "head_dim", "global_head_dim",
        "max_position_embeddings", "original_max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters",
        "partial_rotary_factor", "rotary_pct", "rotary_emb_base", "rotary_dim", "qk_rope_head_dim", "qk_nope_head_dim",
        "kv_channels", "embed_dim", "num_heads", "n_embd", "n_head", "d_model", "rope_interleave", "rope_local_base_freq",
        "global_rope_theta", "local_rope_theta", "no_rope_layers", "no_rope_layer_interval", "layer_types",
        "sliding_window", "sliding_window_pattern", "alibi", "position_embedding_type", "layer_rope_theta")


def rotary_of(config):
    """The model's rotary object, if it can be built from the configuration alone, and its module."""
    name = type(config).__module__.replace("configuration_", "modeling_")
    try:
        module = importlib.import_module(name)
    except Exception:                                        # a model whose dependencies are not installed
        return None, None
    classes = [c for n, c in inspect.getmembers(module, inspect.isclass)
               if n.endswith("RotaryEmbedding") and c.__module__ == name]
    for rotary in sorted(classes, key=lambda c: "Vision" in c.__name__):
        try:
            return rotary(config=config), module
        except Exception:                                    # the class of another part of the model
            continue
    return None, None


def pairing(rotary, module, config, pairs):
    """Measured where the usual function and call fit; null elsewhere."""
    asked = getattr(config, "rope_interleave", None)
    name = INTERLEAVE if asked is not False and hasattr(module, INTERLEAVE) else APPLY
    try:
        return pairing_of(getattr(module, name), run(rotary, [[5]]), pairs)
    except Exception:
        return None


def entry(model_type):
    config = CONFIG_MAPPING[model_type]()
    if "text_config" in config.to_dict():
        return None                                          # its text model has an entry of its own
    rotary, module = rotary_of(config)
    frequencies = {} if rotary is None else {
        name.removesuffix("inv_freq").rstrip("_"): short(tensor) for name, tensor in rotary.named_buffers()
        if name.endswith("inv_freq") and "original" not in name and tensor.dim() == 1}
    if not frequencies:
        return None
    values = json.loads(config.to_json_string(use_diff=False))
    kept = {key: values[key] for key in KEYS if key in values}
    kept["model_type"] = model_type
    first = next(iter(frequencies.values()))
    return {"config": kept, "pairing": pairing(rotary, module, config, len(first)), "inv_freq": frequencies}


def main():
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    entries = []
    for model_type in sorted(CONFIG_MAPPING):
        try:
            found = entry(model_type)
        except Exception:                                    # classes that have no default configuration
            found = None
        if found:
            entries.append(json.dumps(found, separators=(",", ":"), allow_nan=False))
    OUT.write_text("[\n" + ",\n".join(entries) + "\n]\n")
    print(f"{OUT}: {len(entries)} model types, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
