"""Small configurations of any model type: the class' defaults, with sizes made small by the names of their fields."""

from __future__ import annotations

import itertools
from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

VOCABULARY = 256
FIRST_ORDINARY_TOKEN = 100  # those below may mean something: padding, an image

IMAGE_TOKENS = ("image_token_id", "image_token_index", "img_context_token_id")
# Fields of widths that must agree with each other.
_WIDTH = 64
_WIDTHS = set(
    "hidden_size d_model n_embd dim emb_dim encoder_hidden_size decoder_hidden_size embed_dim embedding_size "
    "word_embed_proj_dim out_hidden_size text_hidden_size hidden_dim encoder_hidden_dim text_embed_dim "
    "projector_hidden_size projection_dim mm_hidden_size text_config_hidden_size cross_attention_hidden_size "
    "output_hidden_size adapter_out_dim decoder_hidden_dim n_embed embedding_dim vision_hidden_size "
    "audio_hidden_size hidden_size_per_layer_input lm_hidden_size llm_hidden_size proj_hidden_size "
    "vision_embed_dim cross_hidden_size upsample_groups d_text text_dim pooler_output_size attention_hidden_size".split()
)
_INNER = set(
    "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner moe_intermediate_size mlp_dim "
    "ffn_hidden_size shared_expert_intermediate_size moe_shared_expert_intermediate_size d_inner "
    "intermediate_size_mlp shared_intermediate_size linear_units projector_intermediate_size "
    "dense_intermediate_size expert_ffn_hidden_size feed_forward_hidden_size".split()
)
_HEADS = set(
    "num_attention_heads encoder_attention_heads decoder_attention_heads num_heads n_head n_heads attention_heads "
    "encoder_num_attention_heads decoder_num_attention_heads num_decoder_attention_heads swa_num_attention_heads "
    "resampler_n_heads index_n_heads cross_num_attention_heads decoder_num_heads encoder_num_heads".split()
)
_KEY_HEADS = set(
    "num_key_value_heads decoder_num_key_value_heads encoder_num_key_value_heads n_head_kv num_kv_heads "
    "decoder_num_kv_heads cross_num_key_value_heads swa_num_key_value_heads".split()
)
_LAYERS = set(
    "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers depth num_decoder_layers "
    "num_encoder_layers encoder_num_layers decoder_num_layers encoder_num_hidden_layers decoder_num_hidden_layers "
    "memory_attention_num_layers resampler_depth layers vision_layers num_text_layers".split()
)
# Field -> the largest value it keeps.
_AT_MOST = {
    "head_dim": 16, "swa_head_dim": 16, "global_head_dim": 16, "d_kv": 16, "dim_head": 16, "attention_head_dim": 16,
    "qk_head_dim": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "rotary_dim": 8,
    "q_lora_rank": 24, "kv_lora_rank": 16, "index_head_dim": 16, "index_topk": 16, "query_pre_attn_scalar": 16,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "num_shared_experts": 1, "moe_topk": 2, "moe_k": 2, "n_group": 2, "topk_group": 1,
    "moe_num_shared_experts": 1, "first_k_dense_replace": 1, "num_dense_layers": 1, "moe_layer_start_index": 0,
    "max_position_embeddings": 128, "n_positions": 128, "max_target_positions": 128, "max_source_positions": 64,
    "sliding_window": 5, "local_attention": 6, "sliding_window_size": 5, "attention_chunk_size": 6,
    "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "mamba_d_state": 16, "ssm_state_size": 16, "mamba_head_dim": 16, "num_kv_shared_layers": 0, "max_window_layers": 1,
    "mamba_n_heads": 8, "mamba_d_head": 16, "num_expert_group": 2, "num_experts_per_token": 2, "cross_head_dim": 16,
    "linear_head_dim": 16, "linear_num_heads": 4, "position_embedding_size": 64,
    "num_nextn_predict_layers": 0, "cross_attention_frequency": 1, "num_queries": 8, "num_query_tokens": 8,
}  # fmt: skip
_WIDTHS_OF_HEADS = {name for name in _AT_MOST if name.endswith(("head_dim", "d_kv", "_rank", "dim_head", "rotary_dim"))}
_NUMBERS_OF_LAYERS = ("indexes", "_layers", "_layer_ids", "layers_idx", "hidden_state_indices")
_LIKE_WIDTHS = ("_dim", "_size", "_channels", "_features", "_hidden", "_proj", "_channel", "_vocab")
_PLACES = {"image_size", "patch_size", "window_size", "block_size", "chunk_size", "context_size", "pretrain_image_size"}
_STAGES = {"stage_names", "out_features", "out_indices"}
_IGNORED = {"id2label", "label2id", "transformers_version", "architectures", "dtype", "torch_dtype", "num_labels",
            "_attn_implementation", "attn_implementation"}  # fmt: skip


# Ways to make it small, tried in order: which parts get small widths ("text": those with a vocabulary; "more": in all,
# fields of any name that ends like one of widths), and whether layers are left out. Backbones of images often need all of theirs.
WAYS = [("all", True), ("more", True), ("all", False), ("text", True), ("none", True), ("none", False)]


def tiny_config(config_class: Any, way: tuple[str, bool], changes: dict[str, Any]) -> Any:
    """changes: field, or path of fields with dots, -> value, set before the configuration is made."""
    shrunk = _Shrinking(*way).of(_plain(config_class()))
    for path, value in changes.items():
        part = shrunk
        *parents, last = path.split(".")
        for parent in parents:
            part = part[parent]
        part[last] = value
    return config_class(**shrunk)


def _plain(config: Any) -> dict[str, Any]:
    """Nested dictionaries; to_dict leaves out what it takes for defaults of the class of a part."""
    values: dict[str, Any] = config.to_dict()
    for name, value in vars(config).items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            values[name] = _plain(value)
    return values


class _Shrinking:
    def __init__(self, narrow: str, cut: bool) -> None:
        self.narrow, self.cut = narrow, cut
        self.tokens: dict[int, int] = {}  # of the default -> of the small vocabulary

    def of(self, values: dict[str, Any]) -> dict[str, Any]:
        is_text = any(name.endswith("vocab_size") and name != "type_vocab_size" for name in values)
        small = self.narrow in ("all", "more") or (self.narrow == "text" and is_text)
        layers = _layers(values) if self.cut else {}
        result = {}
        for name, value in values.items():
            if name in _IGNORED or ("stage_names" in values and self.cut and name in _STAGES):
                continue
            if name in layers:
                result[name] = layers[name]
            elif name == "rope_parameters" and isinstance(value, dict):
                result[name] = _rope(value, small, values.get("model_type", ""))
            elif isinstance(value, dict) and ("model_type" in value or name.endswith("config")):
                result[name] = self.of(value)
            else:
                result[name] = self.field(name, value, values, small)
        patch, image = values.get("patch_size"), values.get("image_size")
        if isinstance(patch, int) and isinstance(image, int):
            result["image_size"] = min(image, 4 * patch)
        return result

    def field(self, name: str, value: Any, values: dict[str, Any], small: bool) -> Any:
        if value is None and name in IMAGE_TOKENS:
            return self.token(-1)
        if isinstance(value, float):
            return 0.0 if "drop" in name or "jitter" in name else value
        if isinstance(value, (list, tuple)) and name.endswith(("token_id", "token_ids")):
            return [self.token(each) if isinstance(each, int) else each for each in value]
        if small and name in ("hidden_sizes", "embed_dims") and self.cut:
            return [min(each, _WIDTH) for each in value]
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        if name.endswith(("token_id", "token_index", "vocab_offset")):
            return self.token(value)
        if name.endswith("vocab_size") or name == "vocab_size_per_layer_input":
            return min(value, VOCABULARY)
        if name == "head_dim" and value == values.get("qk_rope_head_dim"):
            return min(value, _AT_MOST["qk_rope_head_dim"])
        if name in _AT_MOST and (small or name not in _WIDTHS_OF_HEADS):
            return min(value, _AT_MOST[name])
        if not small:
            return value
        if name in _WIDTHS:
            return min(value, _WIDTH)
        if name in _INNER:
            return min(value, 96)
        if name in _HEADS:
            return min(value, 4)
        if name in _KEY_HEADS:
            return min(value, 4 if value in [values.get(heads) for heads in _HEADS] else 2)
        if self.narrow == "more" and value >= 256 and name.endswith(_LIKE_WIDTHS) and name not in _PLACES:
            return _WIDTH
        return value

    def token(self, value: int) -> int:
        """The same small number wherever the same token is named."""
        if 0 <= value < FIRST_ORDINARY_TOKEN:
            return value
        return self.tokens.setdefault(value, 30 + len(self.tokens))


def _layers(values: dict[str, Any]) -> dict[str, Any]:
    """Fields of numbers of layers, and lists with an entry for each: as many as there are kinds of them, at least 2."""
    changed: dict[str, Any] = {}
    for name in sorted(_LAYERS & values.keys()):
        count = values[name]
        if not isinstance(count, int) or isinstance(count, bool) or count <= 2:
            continue
        lists = {
            field: value
            for field, value in values.items()
            if isinstance(value, (list, tuple)) and len(value) == count and field not in ("image_size", "patch_size")
        }
        special = {int(layer) for layer in values.get("per_layer_config") or {}}
        entries = list(zip(*lists.values(), [index in special for index in range(count)]))
        picked = _kinds(entries)
        changed[name] = len(picked)
        changed |= {field: [value[i] for i in picked] for field, value in lists.items()}
        if special:
            changed["per_layer_config"] = {
                picked.index(int(layer)): value
                for layer, value in values["per_layer_config"].items()
                if int(layer) in picked
            }
        for field, value in values.items():
            if field.endswith(_NUMBERS_OF_LAYERS) and field not in lists and isinstance(value, (list, tuple)):
                changed[field] = sorted({min(each, len(picked) - 1) for each in value})
    return changed


def _kinds(entries: list[tuple[Any, ...]]) -> list[int]:
    """The first of each kind, up to four, in order; at least two."""
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        seen.setdefault(str([each for each in entry if isinstance(each, (str, bool, int))]), index)
    picked = list(seen.values())[:4]
    rest = (index for index in range(len(entries)) if index not in picked)
    return sorted(picked + list(itertools.islice(rest, max(0, 2 - len(picked)))))


def _rope(values: dict[str, Any], small: bool, model_type: str) -> dict[str, Any]:
    if not small:
        return values
    result = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = _rope(value, small, "")
        elif name == "mrope_section":
            half = int(8 * values.get("partial_rotary_factor", 1.0))
            value = [half // len(value)] * (len(value) - 1)
            value.append(half - sum(value))
        elif name in ("long_factor", "short_factor"):
            value = value[:8]
        result[name] = value
    known = CONFIG_MAPPING[model_type] if model_type in CONFIG_MAPPING else None
    if values and "mrope_section" in (getattr(known, "ignore_keys_at_rope_validation", None) or ()):
        # The default is for heads of another size.
        result.setdefault("mrope_section", [1, 1, 2] if result.get("partial_rotary_factor") == 0.5 else [2, 3, 3])
    return result
