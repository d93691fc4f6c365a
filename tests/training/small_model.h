// A model and a training that take milliseconds.
#pragma once

#include <cstring>
#include <vector>

#include "phasor/models/transformer.h"
#include "phasor/training/settings.h"

namespace phasor {

inline TransformerConfig small_config(std::int64_t vocabulary, std::string_view encoding_name = "rope",
                                      Score score = Score::dot, std::int64_t length = 16) {
  TransformerConfig config;
  config.vocab_size = vocabulary;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 48;
  config.max_position_embeddings = length;
  config.score = score;
  config = config.checked();
  config.encoding = encoding(encoding_name).defaults(config.shape());
  return config;
}

inline TrainingState small_training(std::int64_t steps) {
  TrainingState state;
  state.settings = {.batch = 4,
                    .length = 16,
                    .schedule = {.peak = 3e-3, .warmup_steps = 2, .steps = steps},
                    .evaluate_every = 3,
                    .evaluation_rows = 6,
                    .seed = 5};
  state.data = DatasetConfig{.task = "copy", .symbols = 8, .seed = 3};
  return state;
}

inline std::vector<float> values_of(Transformer& model) {
  std::vector<float> all;
  for (const NamedWeight& each : model.weights())
    all.insert(all.end(), each.weight->value().begin(), each.weight->value().end());
  return all;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace phasor
