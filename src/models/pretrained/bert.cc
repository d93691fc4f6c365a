// Encoders of text: BERT, RoBERTa and ModernBERT. With the tensors of a masked language model they have its head.
#include <cmath>

#include "architecture.h"
#include "phasor/position/learned.h"

namespace phasor::pretrained {
namespace {

constexpr TensorName kBert[] = {
    {"embedding.*", "bert.embeddings.word_embeddings.*"},
    {"type_embedding.*", "bert.embeddings.token_type_embeddings.*"},
    {"embedding_norm.*", "bert.embeddings.LayerNorm.*"},
    {"positions.table", "bert.embeddings.position_embeddings.weight"},
    {"blocks.#.attention_norm.*", "bert.encoder.layer.#.attention.output.LayerNorm.*"},
    {"blocks.#.attention.q_proj.*", "bert.encoder.layer.#.attention.self.query.*"},
    {"blocks.#.attention.k_proj.*", "bert.encoder.layer.#.attention.self.key.*"},
    {"blocks.#.attention.v_proj.*", "bert.encoder.layer.#.attention.self.value.*"},
    {"blocks.#.attention.o_proj.*", "bert.encoder.layer.#.attention.output.dense.*"},
    {"blocks.#.ffn_norm.*", "bert.encoder.layer.#.output.LayerNorm.*"},
    {"blocks.#.ffn.fc1.*", "bert.encoder.layer.#.intermediate.dense.*"},
    {"blocks.#.ffn.fc2.*", "bert.encoder.layer.#.output.dense.*"},
    {"head.bias", "cls.predictions.decoder.bias"},  // the one that is added; files of tied heads may lack it
    {"head.bias", "cls.predictions.bias"},
    {"head.dense.*", "cls.predictions.transform.dense.*"},
    {"head.norm.*", "cls.predictions.transform.LayerNorm.*"},
    {"head.weight", "cls.predictions.decoder.weight"},
};

constexpr TensorName kRoberta[] = {
    {"embedding.*", "roberta.embeddings.word_embeddings.*"},
    {"type_embedding.*", "roberta.embeddings.token_type_embeddings.*"},
    {"embedding_norm.*", "roberta.embeddings.LayerNorm.*"},
    {"positions.table", "roberta.embeddings.position_embeddings.weight", Part::last_rows},
    {"blocks.#.attention_norm.*", "roberta.encoder.layer.#.attention.output.LayerNorm.*"},
    {"blocks.#.attention.q_proj.*", "roberta.encoder.layer.#.attention.self.query.*"},
    {"blocks.#.attention.k_proj.*", "roberta.encoder.layer.#.attention.self.key.*"},
    {"blocks.#.attention.v_proj.*", "roberta.encoder.layer.#.attention.self.value.*"},
    {"blocks.#.attention.o_proj.*", "roberta.encoder.layer.#.attention.output.dense.*"},
    {"blocks.#.ffn_norm.*", "roberta.encoder.layer.#.output.LayerNorm.*"},
    {"blocks.#.ffn.fc1.*", "roberta.encoder.layer.#.intermediate.dense.*"},
    {"blocks.#.ffn.fc2.*", "roberta.encoder.layer.#.output.dense.*"},
    {"head.bias", "lm_head.decoder.bias"},
    {"head.bias", "lm_head.bias"},
    {"head.dense.*", "lm_head.dense.*"},
    {"head.norm.*", "lm_head.layer_norm.*"},
    {"head.weight", "lm_head.decoder.weight"},
};

constexpr TensorName kModernBert[] = {
    {"embedding.*", "model.embeddings.tok_embeddings.*"},
    {"embedding_norm.*", "model.embeddings.norm.*"},
    {"blocks.#.attention_norm.*", "model.layers.#.attn_norm.*"},
    {"blocks.#.attention.q_proj.*", "model.layers.#.attn.Wqkv.*", Part::query},
    {"blocks.#.attention.k_proj.*", "model.layers.#.attn.Wqkv.*", Part::key},
    {"blocks.#.attention.v_proj.*", "model.layers.#.attn.Wqkv.*", Part::value},
    {"blocks.#.attention.o_proj.*", "model.layers.#.attn.Wo.*"},
    {"blocks.#.ffn_norm.*", "model.layers.#.mlp_norm.*"},
    {"blocks.#.ffn.gate_proj.*", "model.layers.#.mlp.Wi.*", Part::first_half},
    {"blocks.#.ffn.up_proj.*", "model.layers.#.mlp.Wi.*", Part::second_half},
    {"blocks.#.ffn.down_proj.*", "model.layers.#.mlp.Wo.*"},
    {"norm.*", "model.final_norm.*"},
    {"head.dense.*", "head.dense.*"},
    {"head.norm.*", "head.norm.*"},
    {"head.bias", "decoder.bias"},
    {"head.weight", "decoder.weight"},
};

}  // namespace

constinit const std::span<const TensorName> kBertNames = kBert, kRobertaNames = kRoberta,
                                            kModernBertNames = kModernBert;

TransformerConfig read_bert(ConfigFile& config, const TensorFolder& files) {
  const bool roberta = config.model_type() != "bert";
  config.expect("position_embedding_type", std::string("absolute"));
  // RoBERTa counts positions from the number after that of padding.
  const std::int64_t rows = config.integer("max_position_embeddings", 512);
  const std::int64_t longest = roberta ? rows - config.integer("pad_token_id", 1) - 1 : rows;
  const bool head = files.find(roberta ? "lm_head.bias" : "cls.predictions.bias") != nullptr;
  return {.vocab_size = config.integer("vocab_size"),
          .hidden_size = config.integer("hidden_size"),
          .num_hidden_layers = config.integer("num_hidden_layers"),
          .num_attention_heads = config.integer("num_attention_heads"),
          .intermediate_size = config.integer("intermediate_size"),
          .max_position_embeddings = longest,
          .norm = NormKind::layer,
          .norm_eps = config.number("layer_norm_eps", 1e-12),
          .norm_place = NormPlace::after,
          .hidden_act = config.activation("hidden_act", "gelu"),
          .gated = false,
          .mlp_bias = true,
          .attention_bias = true,
          .attention_dropout = config.number("attention_probs_dropout_prob", 0.0),
          .causal = false,
          .embedding_norm = true,
          .type_vocab_size = config.integer("type_vocab_size", 2),
          .final_norm = false,
          .output_head = head,
          .tie_word_embeddings = config.flag("tie_word_embeddings", true),
          .head_bias = head,
          .head_transform = head,
          .encoding = LearnedConfig{.max_length = longest}};
}

TransformerConfig read_modernbert(ConfigFile& config, const TensorFolder& files) {
  const std::int64_t every = config.positive("global_attn_every_n_layers", 3);
  const bool head = files.find("head.dense.weight") != nullptr && files.find("decoder.bias") != nullptr;
  TransformerConfig to{.vocab_size = config.integer("vocab_size"),
                       .hidden_size = config.integer("hidden_size"),
                       .num_hidden_layers = config.integer("num_hidden_layers"),
                       .num_attention_heads = config.integer("num_attention_heads"),
                       .intermediate_size = config.integer("intermediate_size"),
                       .max_position_embeddings = config.integer("max_position_embeddings", 8192),
                       .norm = NormKind::layer,
                       .norm_bias = config.flag("norm_bias", false),
                       .norm_eps = config.number("norm_eps", 1e-5),
                       .first_attention_norm = false,
                       .hidden_act = config.activation("hidden_activation", "gelu"),
                       .mlp_bias = config.flag("mlp_bias", false),
                       .attention_bias = config.flag("attention_bias", false),
                       .attention_dropout = config.number("attention_dropout", 0.0),
                       .causal = false,
                       .embedding_norm = true,
                       .output_head = head,
                       .tie_word_embeddings = config.flag("tie_word_embeddings", true),
                       .head_bias = config.flag("decoder_bias", true),
                       .head_transform = head,
                       .head_transform_bias = config.flag("classifier_bias", false)};
  if (head && config.activation("classifier_activation", "gelu") != to.hidden_act)
    config.refuse("classifier_activation", "that of hidden_activation");
  // local_attention counts both sides: 128 are 64 to the left, 64 to the right, and the token itself.
  const std::int64_t window = config.integer("local_attention", 128);
  to.sliding_window = window / 2 + 1;
  read_layer_types(
      config, [&](std::int64_t layer) { return layer % every != 0; }, to);
  return to;
}

}  // namespace phasor::pretrained
