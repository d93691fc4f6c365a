// Learned absolute positions (Gehring et al. 2017, arXiv 1705.03122; GPT-2, BERT): a trainable table [max_length, C],
// whose row `position` is added to the token embedding. A position past the table is an error.
#pragma once

#include <cstdint>
#include <string_view>

namespace phasor {

struct LearnedConfig {
  static constexpr std::string_view kEncoding = "learned";
  std::int64_t max_length = 2048;
  float initial_deviation = 0.02f;  // as GPT-2 has it
};

}  // namespace phasor
