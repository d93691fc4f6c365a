// Llama and its descendants: RmsNorms before gated layers, rotation, grouped key heads.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "architecture.h"
#include "phasor/position/rope.h"

namespace phasor::pretrained {
namespace {

constexpr TensorName kNames[] = {
    {"embedding.*", "model.embed_tokens.*"},
    {"blocks.#.attention_norm.*", "model.layers.#.input_layernorm.*"},
    {"blocks.#.attention.*", "model.layers.#.self_attn.*"},
    {"blocks.#.ffn_norm.*", "model.layers.#.post_attention_layernorm.*"},
    {"blocks.#.ffn.*", "model.layers.#.mlp.*"},
    {"norm.*", "model.norm.*"},
    {"head.*", "lm_head.*"},
};

constexpr TensorName kFusedNames[] = {
    {"embedding.*", "model.embed_tokens.*"},
    {"blocks.#.attention_norm.*", "model.layers.#.input_layernorm.*"},
    {"blocks.#.attention.q_proj.*", "model.layers.#.self_attn.qkv_proj.*", Part::query},
    {"blocks.#.attention.k_proj.*", "model.layers.#.self_attn.qkv_proj.*", Part::key},
    {"blocks.#.attention.v_proj.*", "model.layers.#.self_attn.qkv_proj.*", Part::value},
    {"blocks.#.attention.o_proj.*", "model.layers.#.self_attn.o_proj.*"},
    {"blocks.#.ffn_norm.*", "model.layers.#.post_attention_layernorm.*"},
    {"blocks.#.ffn.gate_proj.*", "model.layers.#.mlp.gate_up_proj.*", Part::first_half},
    {"blocks.#.ffn.up_proj.*", "model.layers.#.mlp.gate_up_proj.*", Part::second_half},
    {"blocks.#.ffn.down_proj.*", "model.layers.#.mlp.down_proj.*"},
    {"norm.*", "model.norm.*"},
    {"head.*", "lm_head.*"},
};

// MiniMind's config names a flag for YaRN.
EncodingConfig minimind_rope(ConfigFile& config, std::int64_t head_dim, std::int64_t longest) {
  RopeConfig rope{.head_dim = head_dim, .theta = config.number("rope_theta", 1e6), .max_position_embeddings = longest};
  if (config.flag("inference_rope_scaling", false))
    rope.scaling = {.type = "yarn",
                    .factor = 16.0,
                    .original_max_position_embeddings = 2048,
                    .attention_factor = 1.0,
                    .beta_fast = 32.0,
                    .beta_slow = 1.0,
                    .clamp_to_pairs = true};
  return rope;
}

// Of MiniMind, where it is not given: about pi times the width, in steps of 64.
std::int64_t minimind_hidden(std::int64_t width) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(width) * std::numbers::pi / 64.0)) * 64;
}

// The window and the rotation, of all layers or by layer.
void read_layers(ConfigFile& config, TransformerConfig& to) {
  const std::string type = config.model_type();
  if (type == "mistral" || type == "phi3")
    to.sliding_window = config.integer_unless_null("sliding_window", type == "mistral" ? 4096 : 0);
  if (type != "qwen2" && type != "qwen3" && type != "smollm3") return read_rotation(config, to);
  const bool slides = config.flag("use_sliding_window", false);
  // Layers of SmolLM3 that slide are those that do not rotate.
  if (slides && type == "smollm3" && !config.has("layer_types"))
    config.refuse("layer_types", "them, since use_sliding_window is true");
  const std::int64_t whole = config.integer("max_window_layers", 28);
  to.sliding_window = config.integer_unless_null("sliding_window", slides ? 4096 : 0);
  read_layer_types(
      config, [&](std::int64_t layer) { return slides && layer >= whole; }, to);
}

// The settings of MiniMind's own code.
void read_minimind(ConfigFile& config, const TensorFolder& files, TransformerConfig& to) {
  to.intermediate_size = config.integer("intermediate_size", minimind_hidden(to.hidden_size));
  to.max_position_embeddings = config.integer("max_position_embeddings", 32768);
  to.norm_eps = config.number("rms_norm_eps", 1e-5);
  to.qk_norm = files.find("model.layers.0.self_attn.q_norm.weight") != nullptr;
  const std::int64_t heads = std::max<std::int64_t>(1, to.num_attention_heads);
  to.encoding = minimind_rope(config, to.head_dim ? to.head_dim : to.hidden_size / heads, to.max_position_embeddings);
}

}  // namespace

constinit const std::span<const TensorName> kLlamaNames = kNames, kPhi3Names = kFusedNames;

TransformerConfig read_llama(ConfigFile& config, const TensorFolder& files) {
  const std::string type = config.model_type();
  const bool minimind = type == "minimind", qwen2 = type == "qwen2";
  TransformerConfig to{.vocab_size = config.integer("vocab_size"),
                       .hidden_size = config.integer("hidden_size"),
                       .num_hidden_layers = config.integer("num_hidden_layers"),
                       .num_attention_heads = config.integer("num_attention_heads")};
  to.num_key_value_heads = config.integer("num_key_value_heads", to.num_attention_heads);
  to.head_dim = config.integer("head_dim", type == "qwen3" ? 128 : 0);
  to.hidden_act = config.activation("hidden_act", "silu");
  to.mlp_bias = config.flag("mlp_bias", false);
  to.attention_bias = config.flag("attention_bias", false) || qwen2;
  if (qwen2) to.attention_output_bias = false;
  to.attention_dropout = config.number("attention_dropout", 0.0);
  to.tie_word_embeddings = config.flag("tie_word_embeddings", type == "smollm3" || minimind);
  to.output_head = to.tie_word_embeddings || files.find("lm_head.weight") != nullptr;
  if (minimind) {
    read_minimind(config, files, to);
    return to;
  }
  to.intermediate_size = config.integer("intermediate_size");
  to.max_position_embeddings = config.integer("max_position_embeddings", 2048);
  to.norm_eps = config.number("rms_norm_eps", type == "phi3" ? 1e-5 : 1e-6);
  to.qk_norm = type == "qwen3";
  read_layers(config, to);
  return to;
}

}  // namespace phasor::pretrained
