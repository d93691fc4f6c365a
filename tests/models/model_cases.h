// Small models of every encoding and score.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phasor/core/random.h"
#include "phasor/models/transformer.h"
#include "phasor/position/alibi.h"
#include "phasor/position/learned.h"
#include "phasor/position/relative.h"
#include "phasor/position/rope.h"
#include "phasor/position/sinusoidal.h"

namespace phasor {

struct ModelCase {
  std::string name;
  TransformerConfig config;
};

inline TransformerConfig small_config(const EncodingConfig& encoding, Score score) {
  return {.vocab_size = 29,
          .hidden_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 6,
          .intermediate_size = 40,
          .max_position_embeddings = 32,
          .score = score,
          .encoding = encoding};
}

// Layer 0 has the encoding of the model, layer 1 another one.
inline TransformerConfig two_encodings(const EncodingConfig& encoding, const EncodingConfig& second, Score score) {
  TransformerConfig config = small_config(encoding, score);
  config.layer_encodings = {{.layers = {1}, .encoding = second}};
  return config;
}

// Three layers: the first and the last share the second encoding.
inline TransformerConfig shared_encoding(const EncodingConfig& encoding, const EncodingConfig& second, Score score) {
  TransformerConfig config = small_config(encoding, score);
  config.num_hidden_layers = 3;
  config.layer_encodings = {{.layers = {0, 2}, .encoding = second}};
  return config;
}

// As BERT has it, with the head of masked language models; rotated, since biases of keys that are not change nothing.
inline TransformerConfig norms_after() {
  TransformerConfig config = small_config(RopeConfig{.head_dim = 6}, Score::dot);
  config.norm = NormKind::layer;
  config.norm_place = NormPlace::after;
  config.hidden_act = Activation::gelu;
  config.gated = false;
  config.mlp_bias = config.attention_bias = true;
  config.embedding_norm = true;
  config.type_vocab_size = 2;
  config.final_norm = false;
  config.head_bias = config.head_transform = true;
  return config;
}

// As Gemma 2 has it.
inline TransformerConfig norms_around() {
  TransformerConfig config = small_config(RopeConfig{.head_dim = 6}, Score::dot);
  config.norm_place = NormPlace::around;
  config.hidden_act = Activation::gelu_tanh;
  config.qk_norm = true;
  config.attention_scale = 0.3;
  config.attention_softcap = 4.0;
  config.sliding_window = 4;
  config.sliding_layers = {1};
  config.embedding_scale = 2.5;
  config.logits_scale = 0.5;
  config.logits_softcap = 3.0;
  return config;
}

// As GPT-NeoX has it.
inline TransformerConfig parallel() {
  TransformerConfig config = small_config(RopeConfig{.head_dim = 6, .rotary_dim = 4}, Score::dot);
  config.norm = NormKind::layer;
  config.norm_bias = false;
  config.parallel_residual = true;
  config.attention_bias = true;
  config.attention_output_bias = false;
  config.tie_word_embeddings = false;
  return config;
}

inline std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> cases;
  const EncodingConfig global = RopeConfig{.head_dim = 6, .theta = 1e6}, local = RopeConfig{.head_dim = 6};
  const EncodingConfig t5 = T5Config{.bidirectional = false}, learned = LearnedConfig{.max_length = 32};
  cases.push_back({"rope_and_none", two_encodings(local, NoneConfig{}, Score::dot)});
  cases.push_back({"global_and_local_rope_w2", two_encodings(global, local, Score::w2)});
  cases.push_back({"learned_and_rope", two_encodings(learned, local, Score::dot)});
  cases.push_back({"t5_and_relative", two_encodings(t5, RelativeConfig{.max_distance = 5}, Score::dot)});
  cases.push_back({"alibi_and_shared_t5", shared_encoding(AlibiConfig{.causal = true}, t5, Score::dot)});
  cases.push_back({"norms_after", norms_after()});
  cases.push_back({"norms_around", norms_around()});
  cases.push_back({"parallel", parallel()});
  const ModelShape shape = small_config(NoneConfig{}, Score::dot).shape();
  for (const Score score : {Score::dot, Score::w2})
    for (const Encoding& row : encodings())
      cases.push_back(
          {std::string(row.name) + (score == Score::w2 ? "_w2" : ""), small_config(row.defaults(shape), score)});
  return cases;
}

inline Tensor<std::int32_t, 2> random_tokens(const Shape<2>& shape, std::int64_t vocabulary, std::uint64_t seed) {
  Tensor<std::int32_t, 2> tokens(shape);
  const Philox random(seed);
  for (std::int64_t i = 0; i < tokens.size(); i++)
    tokens.data()[i] = static_cast<std::int32_t>(random.block(static_cast<std::uint64_t>(i))[0] %
                                                 static_cast<std::uint32_t>(vocabulary));
  return tokens;
}

}  // namespace phasor
