#include "hugging_face_models.h"

#include <algorithm>
#include <string>

#include "phasor/core/check.h"

namespace phasor {
namespace {

constexpr auto kAlways = Interleave::always;
constexpr auto kUnless = Interleave::unless_disabled;
constexpr auto kRefused = LegacyScaling::refused;

// Read from transformers 5.22. Model types that need nothing but theta 10000 and half-split pairs are listed as well:
// a config without any rotary key is accepted only for a model type known to rotate.
constexpr ModelRule kRules[] = {
    {.model_type = "apertus",
     .theta = 1.2e7,
     .parameters = R"({"rope_type": "llama3", "rope_theta": 12000000.0, "factor": 8.0, "low_freq_factor": 1.0,
                       "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})"},
    {.model_type = "arcee"},
    {.model_type = "bitnet", .theta = 5e5},
    {.model_type = "codegen", .interleave = kAlways},
    {.model_type = "cohere", .theta = 5e5, .interleave = kAlways},
    {.model_type = "cohere2", .interleave = kAlways, .rotates = Rotates::sliding_attention},
    {.model_type = "cwm",
     .theta = 1e6,
     .parameters = R"({"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0, "low_freq_factor": 1.0,
                       "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})"},
    {.model_type = "deepseek_v2", .interleave = kAlways, .scores_follow_mscale = true},
    {.model_type = "deepseek_v3", .interleave = kUnless, .scores_follow_mscale = true},
    {.model_type = "deepseek_v32", .interleave = kAlways, .scores_follow_mscale = true},
    {.model_type = "diffllama"},
    {.model_type = "doge"},
    {.model_type = "ernie4_5", .theta = 5e5, .interleave = kAlways},
    {.model_type = "ernie4_5_moe", .theta = 5e5, .interleave = kAlways},
    {.model_type = "exaone4", .rotates = Rotates::sliding_attention},
    {.model_type = "falcon"},
    {.model_type = "flex_olmo", .theta = 5e5},
    {.model_type = "gemma", .head_dim = 256},
    {.model_type = "gemma2", .head_dim = 256},
    {.model_type = "gemma3", .theta = 1e6, .sliding_theta = 1e4, .head_dim = 256},
    {.model_type = "gemma3n", .theta = 1e6, .sliding_theta = 1e4, .head_dim = 256},
    {.model_type = "gemma4",
     .theta = 1e6,
     .sliding_theta = 1e4,
     .legacy = kRefused,
     .head_dim = 256,
     .global_head_dim = 512,
     .parameters = R"({"full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,
                                          "partial_rotary_factor": 0.25},
                       "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})"},
    {.model_type = "glm", .partial = 0.5, .interleave = kAlways, .head_dim = 128},
    {.model_type = "glm4", .partial = 0.5, .interleave = kAlways, .head_dim = 128},
    {.model_type = "glm4_moe", .partial = 0.5},
    {.model_type = "glm4_moe_lite", .interleave = kUnless, .scores_follow_mscale = true},
    {.model_type = "glm4v", .interleave = kAlways, .axes = AxisLayout::chunked, .sections = {8, 12, 12}},
    {.model_type = "gpt_neox", .partial = 0.25, .theta_key = "rotary_emb_base"},
    {.model_type = "gpt_neox_japanese", .theta_key = "rotary_emb_base"},
    {.model_type = "gpt_oss",
     .theta = 1.5e5,
     .head_dim = 64,
     .parameters = R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
                       "original_max_position_embeddings": 4096})"},
    {.model_type = "gptj", .interleave = kAlways},
    {.model_type = "granite"},
    {.model_type = "granitemoe"},
    {.model_type = "helium", .theta = 1e5, .interleave = kAlways},
    {.model_type = "hunyuan_v1_dense", .alpha_is_ntk = true},
    {.model_type = "hunyuan_v1_moe", .alpha_is_ntk = true},
    {.model_type = "jetmoe", .head_dim = 128},
    {.model_type = "kimi_k2", .interleave = kUnless, .scores_follow_mscale = true},
    {.model_type = "laguna",
     .theta = 5e5,
     .sliding_theta = 1e4,
     .legacy = kRefused,
     .parameters = R"({"full_attention": {"rope_type": "default", "rope_theta": 500000.0,
                                          "partial_rotary_factor": 0.5},
                       "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})"},
    {.model_type = "lfm2", .theta = 1e6},
    {.model_type = "lfm2_moe", .theta = 1e6},
    {.model_type = "llama"},
    {.model_type = "llama4", .theta = 5e5, .interleave = kAlways, .rotates = Rotates::no_rope_layers},
    {.model_type = "mimo_v2_flash", .theta = 5e6, .sliding_theta = 1e4, .legacy = kRefused, .partial = 0.334},
    {.model_type = "minimax", .theta = 1e6},
    {.model_type = "minimax_m2", .theta = 5e6},
    {.model_type = "ministral"},
    {.model_type = "ministral3",
     .parameters = R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0,
                       "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                       "original_max_position_embeddings": 16384})"},
    {.model_type = "mistral"},
    {.model_type = "mixtral", .theta = 1e6},
    {.model_type = "mllama_text_model", .theta = 5e5},
    {.model_type = "modernbert", .theta = 1.6e5, .sliding_theta = 1e4, .legacy = LegacyScaling::both},
    {.model_type = "modernbert-decoder", .theta = 1.6e5, .sliding_theta = 1e4, .legacy = LegacyScaling::both},
    {.model_type = "nemotron", .partial = 0.5},
    {.model_type = "nomic_bert", .theta = 1e3},
    {.model_type = "olmo"},
    {.model_type = "olmo2"},
    {.model_type = "olmo3", .theta = 5e5, .sliding_theta = 5e5},
    {.model_type = "olmoe"},
    {.model_type = "persimmon", .partial = 0.5},
    {.model_type = "phi", .partial = 0.5},
    {.model_type = "phi3", .only_longrope = true},
    {.model_type = "phi4_multimodal", .only_longrope = true},
    {.model_type = "pixtral", .axes = AxisLayout::alternating},
    {.model_type = "qwen2"},
    {.model_type = "qwen2_moe"},
    {.model_type = "qwen2_5_vl",
     .theta = 1e6,
     .axes = AxisLayout::chunked,
     .sections = {16, 24, 24},
     .mrope_is_default = true},
    {.model_type = "qwen2_vl",
     .theta = 1e6,
     .axes = AxisLayout::chunked,
     .sections = {16, 24, 24},
     .mrope_is_default = true},
    {.model_type = "qwen2_vl_vision", .axes = AxisLayout::axial},
    {.model_type = "qwen3", .head_dim = 128},
    {.model_type = "qwen3_moe"},
    {.model_type = "qwen3_next", .partial = 0.25, .head_dim = 256},
    {.model_type = "qwen3_5",
     .partial = 0.25,
     .head_dim = 256,
     .axes = AxisLayout::interleaved,
     .sections = {11, 11, 10}},
    {.model_type = "qwen3_vl",
     .theta = 5e5,
     .head_dim = 128,
     .axes = AxisLayout::interleaved,
     .sections = {24, 20, 20}},
    {.model_type = "qwen3_vl_moe", .theta = 5e5, .axes = AxisLayout::interleaved, .sections = {24, 20, 20}},
    {.model_type = "roformer", .interleave = kAlways},
    {.model_type = "seed_oss"},
    {.model_type = "smollm3", .theta = 2e6, .rotates = Rotates::no_rope_layers},
    {.model_type = "solar_open", .theta = 1e6},
    {.model_type = "stablelm", .partial = 0.25},
    {.model_type = "starcoder2"},
};

// These rotate by rules of their own: signs, per-layer tables, channels elsewhere in the head, some layers only.
constexpr std::string_view kNotRead[] = {
    // clang-format off
    "afmoe", "axk1", "axk2", "bailing_hybrid", "bamba", "beam", "blt", "blt_global_transformer", "blt_local_decoder",
    "blt_local_encoder", "blt_patcher", "cohere2_moe", "deepseek_v4", "diffusion_gemma", "dinov3_vit",
    "embedding_gemma2", "eomt_dinov3", "ernie4_5_vl_moe", "exaone4_5", "exaone_moe", "gemma4_unified", "glm4v_moe",
    "glm_image", "glm_moe_dsa", "glm_ocr", "granite_swa", "granitemoe_swa", "granitemoehybrid", "hunyuan_vl", "hy_v4",
    "kimi_linear", "llama4_vision_model", "longcat_flash", "mellum", "minicpm3", "minimax_m3_vl", "mistral4",
    "mistral_large4", "moonshine", "moonshine_streaming", "muse_spark", "nanochat", "neomme", "openai_privacy_filter",
    "phimoe", "qwen2_5_omni", "qwen3_5_moe", "qwen3_omni_moe", "recurrent_gemma", "sapiens2", "step3p5",
    "t5gemma2_decoder", "t5gemma2_encoder", "ultrabert", "vjepa2", "voxtral_realtime", "youtu", "zamba2", "zaya",
    // clang-format on
};

}  // namespace

const ModelRule* find_model_rule(std::string_view model_type) {
  std::string_view base = model_type;
  if (base.ends_with("_text")) base.remove_suffix(5);
  PHASOR_CHECK(std::ranges::find(kNotRead, base) == std::ranges::end(kNotRead), "read_rope_config", "model_type: \"",
               model_type,
               "\", whose rotation follows rules of its own that phasor does not have; expected its "
               "settings as a RopeConfig");
  const auto* rule = std::ranges::find(kRules, base, &ModelRule::model_type);
  return rule == std::ranges::end(kRules) ? nullptr : rule;
}

}  // namespace phasor
