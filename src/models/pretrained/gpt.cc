// GPT-2, GPT-NeoX, BLOOM and MPT: LayerNorms before layers with one activation; learned positions, rotation, ALiBi.
#include "architecture.h"
#include "phasor/position/alibi.h"
#include "phasor/position/learned.h"

namespace phasor::pretrained {
namespace {

constexpr bool kTransposed = true;

constexpr TensorName kGpt2[] = {
    {"embedding.*", "transformer.wte.*"},
    {"positions.table", "transformer.wpe.weight"},
    {"blocks.#.attention_norm.*", "transformer.h.#.ln_1.*"},
    {"blocks.#.attention.q_proj.*", "transformer.h.#.attn.c_attn.*", Part::query, kTransposed},
    {"blocks.#.attention.k_proj.*", "transformer.h.#.attn.c_attn.*", Part::key, kTransposed},
    {"blocks.#.attention.v_proj.*", "transformer.h.#.attn.c_attn.*", Part::value, kTransposed},
    {"blocks.#.attention.o_proj.*", "transformer.h.#.attn.c_proj.*", Part::whole, kTransposed},
    {"blocks.#.ffn_norm.*", "transformer.h.#.ln_2.*"},
    {"blocks.#.ffn.fc1.*", "transformer.h.#.mlp.c_fc.*", Part::whole, kTransposed},
    {"blocks.#.ffn.fc2.*", "transformer.h.#.mlp.c_proj.*", Part::whole, kTransposed},
    {"norm.*", "transformer.ln_f.*"},
    {"head.*", "lm_head.*"},
};

constexpr TensorName kGptNeox[] = {
    {"embedding.*", "gpt_neox.embed_in.*"},
    {"blocks.#.attention_norm.*", "gpt_neox.layers.#.input_layernorm.*"},
    {"blocks.#.attention.q_proj.*", "gpt_neox.layers.#.attention.query_key_value.*", Part::query_of_head},
    {"blocks.#.attention.k_proj.*", "gpt_neox.layers.#.attention.query_key_value.*", Part::key_of_head},
    {"blocks.#.attention.v_proj.*", "gpt_neox.layers.#.attention.query_key_value.*", Part::value_of_head},
    {"blocks.#.attention.o_proj.*", "gpt_neox.layers.#.attention.dense.*"},
    {"blocks.#.ffn_norm.*", "gpt_neox.layers.#.post_attention_layernorm.*"},
    {"blocks.#.ffn.fc1.*", "gpt_neox.layers.#.mlp.dense_h_to_4h.*"},
    {"blocks.#.ffn.fc2.*", "gpt_neox.layers.#.mlp.dense_4h_to_h.*"},
    {"norm.*", "gpt_neox.final_layer_norm.*"},
    {"head.*", "embed_out.*"},
};

constexpr TensorName kBloom[] = {
    {"embedding.*", "transformer.word_embeddings.*"},
    {"embedding_norm.*", "transformer.word_embeddings_layernorm.*"},
    {"blocks.#.attention_norm.*", "transformer.h.#.input_layernorm.*"},
    {"blocks.#.attention.q_proj.*", "transformer.h.#.self_attention.query_key_value.*", Part::query_of_head},
    {"blocks.#.attention.k_proj.*", "transformer.h.#.self_attention.query_key_value.*", Part::key_of_head},
    {"blocks.#.attention.v_proj.*", "transformer.h.#.self_attention.query_key_value.*", Part::value_of_head},
    {"blocks.#.attention.o_proj.*", "transformer.h.#.self_attention.dense.*"},
    {"blocks.#.ffn_norm.*", "transformer.h.#.post_attention_layernorm.*"},
    {"blocks.#.ffn.fc1.*", "transformer.h.#.mlp.dense_h_to_4h.*"},
    {"blocks.#.ffn.fc2.*", "transformer.h.#.mlp.dense_4h_to_h.*"},
    {"norm.*", "transformer.ln_f.*"},
    {"head.*", "lm_head.*"},
};

constexpr TensorName kMpt[] = {
    {"embedding.*", "transformer.wte.*"},
    {"blocks.#.attention_norm.*", "transformer.blocks.#.norm_1.*"},
    {"blocks.#.attention.q_proj.*", "transformer.blocks.#.attn.Wqkv.*", Part::query},
    {"blocks.#.attention.k_proj.*", "transformer.blocks.#.attn.Wqkv.*", Part::key},
    {"blocks.#.attention.v_proj.*", "transformer.blocks.#.attn.Wqkv.*", Part::value},
    {"blocks.#.attention.o_proj.*", "transformer.blocks.#.attn.out_proj.*"},
    {"blocks.#.ffn_norm.*", "transformer.blocks.#.norm_2.*"},
    {"blocks.#.ffn.fc1.*", "transformer.blocks.#.ffn.up_proj.*"},
    {"blocks.#.ffn.fc2.*", "transformer.blocks.#.ffn.down_proj.*"},
    {"norm.*", "transformer.norm_f.*"},
    {"head.*", "lm_head.*"},
};

}  // namespace

constinit const std::span<const TensorName> kGpt2Names = kGpt2, kGptNeoxNames = kGptNeox, kBloomNames = kBloom,
                                            kMptNames = kMpt;

TransformerConfig read_gpt2(ConfigFile& config, const TensorFolder& /*files*/) {
  config.expect("scale_attn_weights", true);
  const std::int64_t width = config.integer("n_embd"), longest = config.integer("n_positions", 1024);
  return {.vocab_size = config.integer("vocab_size"),
          .hidden_size = width,
          .num_hidden_layers = config.integer("n_layer"),
          .num_attention_heads = config.integer("n_head"),
          .intermediate_size = config.integer("n_inner", 4 * width),
          .max_position_embeddings = longest,
          .norm = NormKind::layer,
          .norm_eps = config.number("layer_norm_epsilon", 1e-5),
          .hidden_act = config.activation("activation_function", "gelu_new"),
          .gated = false,
          .mlp_bias = true,
          .attention_bias = true,
          .attention_dropout = config.number("attn_pdrop", 0.0),
          .tie_word_embeddings = config.flag("tie_word_embeddings", true),
          .encoding = LearnedConfig{.max_length = longest}};
}

TransformerConfig read_gpt_neox(ConfigFile& config, const TensorFolder& files) {
  const bool tied = config.flag("tie_word_embeddings", false);
  const bool bias = config.flag("attention_bias", true);
  TransformerConfig to{.vocab_size = config.integer("vocab_size"),
                       .hidden_size = config.integer("hidden_size"),
                       .num_hidden_layers = config.integer("num_hidden_layers"),
                       .num_attention_heads = config.integer("num_attention_heads"),
                       .intermediate_size = config.integer("intermediate_size"),
                       .max_position_embeddings = config.integer("max_position_embeddings", 2048),
                       .norm = NormKind::layer,
                       .norm_eps = config.number("layer_norm_eps", 1e-5),
                       .parallel_residual = config.flag("use_parallel_residual", true),
                       .hidden_act = config.activation("hidden_act", "gelu"),
                       .gated = false,
                       .mlp_bias = true,
                       .attention_bias = bias,
                       .attention_dropout = config.number("attention_dropout", 0.0),
                       .output_head = tied || files.find("embed_out.weight") != nullptr,
                       .tie_word_embeddings = tied};
  read_rotation(config, to);
  return to;
}

TransformerConfig read_bloom(ConfigFile& config, const TensorFolder& /*files*/) {
  const std::int64_t width = config.integer({"hidden_size", "n_embed"});
  return {.vocab_size = config.integer("vocab_size"),
          .hidden_size = width,
          .num_hidden_layers = config.integer({"n_layer", "num_hidden_layers"}),
          .num_attention_heads = config.integer({"n_head", "num_attention_heads"}),
          .intermediate_size = 4 * width,
          .max_position_embeddings = config.integer("seq_length", 2048),
          .norm = NormKind::layer,
          .norm_eps = config.number("layer_norm_epsilon", 1e-5),
          .hidden_act = Activation::gelu_tanh,
          .gated = false,
          .mlp_bias = true,
          .attention_bias = true,
          .attention_dropout = config.number("attention_dropout", 0.0),
          .embedding_norm = true,
          .tie_word_embeddings = config.flag("tie_word_embeddings", true),
          .encoding = AlibiConfig{.causal = true}};
}

TransformerConfig read_mpt(ConfigFile& config, const TensorFolder& /*files*/) {
  const std::int64_t width = config.integer("d_model");
  config.expect("no_bias", true);
  config.expect("expansion_ratio", std::int64_t{4});  // the only one that transformers computes
  double dropout = 0.0;
  if (config.has("attn_config")) {
    FieldReader attention = config.object("attn_config");
    const auto expect = [&](const char* key, auto only) {
      auto value = only;
      attention.since(key, value, only);
      if (value != only) attention.refuse_key(key, json_text(Json(only)));
    };
    expect("alibi", true);
    expect("alibi_bias_max", std::int64_t{8});
    expect("qk_ln", false);
    expect("prefix_lm", false);
    expect("attn_uses_sequence_id", false);
    expect("attn_type", std::string("multihead_attention"));
    for (const char* key : {"clip_qkv", "softmax_scale"})
      if (const Json* value = attention.find(key); value != nullptr && !value->is_null())
        attention.refuse_key(key, "null");
    attention.since("attn_pdrop", dropout, 0.0);
  }
  return {.vocab_size = config.integer("vocab_size"),
          .hidden_size = width,
          .num_hidden_layers = config.integer("n_layers"),
          .num_attention_heads = config.integer("n_heads"),
          .intermediate_size = 4 * width,
          .max_position_embeddings = config.integer("max_seq_len", 2048),
          .norm = NormKind::layer,
          .norm_bias = false,
          .norm_eps = config.number("layer_norm_epsilon", 1e-5),
          .hidden_act = Activation::gelu,
          .gated = false,
          .attention_dropout = dropout,
          .tie_word_embeddings = config.flag("tie_word_embeddings", true),
          .encoding = AlibiConfig{.causal = true}};
}

}  // namespace phasor::pretrained
