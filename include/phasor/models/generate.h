// Generation: a causal model reads a prompt and continues it, token by token, with a cache.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "phasor/models/transformer.h"

namespace phasor {

// How the next token is drawn: from softmax(logits / temperature), of the top_k likeliest tokens, and of these of the
// likeliest that together have probability top_p.
struct Sampling {
  double temperature = 0.0;  // 0: the likeliest token
  std::int64_t top_k = 0;    // 0: all
  double top_p = 1.0;
  std::uint64_t seed = 0;
};

// Token number `draw` of a text: equal seeds and draws choose equally. Of equal logits the first counts as likelier.
std::int32_t sample_token(std::span<const float> logits, const Sampling& sampling, std::uint64_t draw);

struct GenerateOptions {
  std::int64_t new_tokens = 100;
  Sampling sampling{};
  std::optional<std::int32_t> stop_token{};
  std::optional<CacheStorage> storage{};  // the model's suitable_storage()
};

// Returns the new tokens. on_token, if given, is called with each one, and ends the text by returning false.
std::vector<std::int32_t> generate(const Transformer& model, std::span<const std::int32_t> prompt,
                                   const GenerateOptions& options, Workspace& workspace,
                                   const std::function<bool(std::int32_t)>& on_token = {});

}  // namespace phasor
