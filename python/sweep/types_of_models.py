"""Which model types there are, which class stands for each, and what must be changed in its configuration."""

from __future__ import annotations

from typing import Any

from transformers.models.auto import modeling_auto

# The class of the first of these that has the type is tried; the others where it does not run.
_PREFERRED = [
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_CTC_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
]

# type -> field -> value, where the general rules give a configuration that contradicts itself.
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_ROPE_BY_LAYER = {"full_attention": _ROPE, "sliding_attention": _ROPE}
_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16}
CHANGES: dict[str, dict[str, Any]] = {
    "bamba": _MAMBA | {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 500},
    "chameleon": {"vocabulary_map": {"<image>": 31}},
    "cohere_compass": {"text_config.rope_parameters": _ROPE_BY_LAYER},
    "cohere_compass_text": {"rope_parameters": _ROPE_BY_LAYER},
    "dbrx": {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_group": 2, "topk_group": 1},
    "diffusion_gemma": {
        "text_config.num_experts": 4,
        "text_config.top_k_experts": 2,
        "text_config.moe_intermediate_size": 32,
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "emu3": {"vocabulary_map": {"<image>": 31}},
    "esm": {"vocab_size": 200, "pad_token_id": 1, "mask_token_id": 2},
    "falcon_h1": {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_ssm": 128},
    "granitemoehybrid": _MAMBA | {"layer_types": ["linear_attention", "full_attention"]},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16, "num_experts": 4, "moe_topk": [2, 2]},
    "hunyuan_vl": {"text_config.head_dim": 16},
    "hunyuan_vl_text": {"head_dim": 16},
    "kosmos-2": {"latent_query_num": 4},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"head_dim": 32},
    "ministral": {"head_dim": 16},
    "nemotron": {"num_key_value_heads": 2},
    "paddleocr_vl": {"text_config.rope_parameters": _ROPE | {"mrope_section": [2, 3, 3]}},
    "qwen2_5_omni_thinker": {"vision_start_token_id": 40},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 40},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "sam2_hiera_det_model": {"image_size": [128, 128]},
    "sam2_vision_model": {
        "backbone_config.image_size": [128, 128],
        "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
    },
    "step3p7": {"text_config.sliding_window": 5},
    "swin": {"embed_dim": 48, "num_heads": [3, 6, 12, 24], "image_size": 56},
    "udop": {"relative_bias_args": [{"type": "1d"}, {"type": "horizontal"}, {"type": "vertical"}]},
}


def _mappings() -> list[str]:
    return [name for name in vars(modeling_auto) if name.startswith("MODEL") and name.endswith("_NAMES")]


def all_types() -> list[str]:
    """Those of transformers' auto classes."""
    return sorted({model_type for name in _mappings() for model_type in getattr(modeling_auto, name)})


def classes_of(model_type: str) -> list[str]:
    """Names of up to three classes, the one to try first in front."""
    names: dict[str, None] = {}
    for mapping in [*_PREFERRED, *_mappings()]:
        found = getattr(modeling_auto, mapping).get(model_type, ())
        names |= dict.fromkeys([found] if isinstance(found, str) else found)
    return list(names)[:3]
