// Sampling: how the next token is chosen from the logits.
#pragma once

#include <cstdint>
#include <span>

namespace phasor {

// The steps of transformers' generate, in its order: the logits of tokens that are in the text already are divided by
// repetition_penalty where they are positive, and multiplied where they are negative; all are divided by temperature;
// of the tokens the top_k likeliest stay, of these the likeliest that together have probability top_p, of these all
// whose probability is at least min_p times that of the likeliest.
struct Sampling {
  double temperature = 0.0;  // 0: the likeliest token
  std::int64_t top_k = 0;    // 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  std::uint64_t seed = 0;
};

// Errors name `function`.
void check_sampling(const Sampling& sampling, const char* function);

// Token number `draw` after `text`, which repetition_penalty alone reads: equal seeds and draws choose equally. Of
// equal logits the first counts as likelier.
std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> text, const Sampling& sampling,
                          std::uint64_t draw);

}  // namespace phasor
