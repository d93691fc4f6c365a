// Gemma 2 and 3, text: norms of 1 + w around each sublayer, embeddings times sqrt(C), local and global layers.
#include <cmath>

#include "architecture.h"

namespace phasor::pretrained {
namespace {

constexpr float kOne = 1.0f;  // norms multiply by 1 + w

constexpr TensorName kNames[] = {
    {"embedding.*", "model.embed_tokens.*"},
    {"blocks.#.attention_norm.*", "model.layers.#.input_layernorm.*", Part::whole, false, kOne},
    {"blocks.#.attention.q_norm.*", "model.layers.#.self_attn.q_norm.*", Part::whole, false, kOne},
    {"blocks.#.attention.k_norm.*", "model.layers.#.self_attn.k_norm.*", Part::whole, false, kOne},
    {"blocks.#.attention.*", "model.layers.#.self_attn.*"},
    {"blocks.#.attention_out_norm.*", "model.layers.#.post_attention_layernorm.*", Part::whole, false, kOne},
    {"blocks.#.ffn_norm.*", "model.layers.#.pre_feedforward_layernorm.*", Part::whole, false, kOne},
    {"blocks.#.ffn.*", "model.layers.#.mlp.*"},
    {"blocks.#.ffn_out_norm.*", "model.layers.#.post_feedforward_layernorm.*", Part::whole, false, kOne},
    {"norm.*", "model.norm.*", Part::whole, false, kOne},
    {"head.*", "lm_head.*"},
};

}  // namespace

constinit const std::span<const TensorName> kGemmaNames = kNames;

TransformerConfig read_gemma(ConfigFile& config, const TensorFolder& /*files*/) {
  const bool gemma2 = config.model_type() == "gemma2";
  TransformerConfig to{.vocab_size = config.integer("vocab_size"),
                       .hidden_size = config.integer("hidden_size"),
                       .num_hidden_layers = config.integer("num_hidden_layers"),
                       .num_attention_heads = config.integer("num_attention_heads"),
                       .num_key_value_heads = config.integer("num_key_value_heads", 4),
                       .head_dim = config.integer("head_dim", 256),
                       .intermediate_size = config.integer("intermediate_size"),
                       .max_position_embeddings = config.integer("max_position_embeddings", gemma2 ? 8192 : 131072),
                       .norm_eps = config.number("rms_norm_eps", 1e-6),
                       .norm_place = NormPlace::around,
                       .hidden_act = config.activation("hidden_activation", "gelu_pytorch_tanh"),
                       .qk_norm = !gemma2,
                       .attention_bias = config.flag("attention_bias", false),
                       .attention_scale = 1.0 / std::sqrt(config.number("query_pre_attn_scalar", 256.0)),
                       .attention_softcap = config.number_unless_null("attn_logit_softcapping", gemma2 ? 50.0 : 0.0),
                       .attention_dropout = config.number("attention_dropout", 0.0),
                       .sliding_window = config.integer("sliding_window", 4096),
                       .tie_word_embeddings = config.flag("tie_word_embeddings", true),
                       .logits_softcap = config.number_unless_null("final_logit_softcapping", gemma2 ? 30.0 : 0.0)};
  to.embedding_scale = std::sqrt(static_cast<double>(to.hidden_size));
  const std::int64_t every = gemma2 ? 2 : config.positive("sliding_window_pattern", 6);
  read_layer_types(
      config, [&](std::int64_t layer) { return (layer + 1) % every != 0; }, to);
  return to;
}

}  // namespace phasor::pretrained
