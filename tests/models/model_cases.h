// Small models of every encoding and score.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phasor/core/random.h"
#include "phasor/models/decoder.h"
#include "phasor/position/alibi.h"
#include "phasor/position/learned.h"
#include "phasor/position/relative.h"
#include "phasor/position/rope.h"
#include "phasor/position/sinusoidal.h"

namespace phasor {

struct ModelCase {
  std::string name;
  DecoderConfig config;
};

inline DecoderConfig small_config(const EncodingConfig& encoding, Score score) {
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

inline std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> cases;
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
