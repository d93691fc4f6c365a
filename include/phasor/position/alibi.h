// ALiBi, attention with linear biases (Press, Smith, Lewis 2021, arXiv 2108.12409): score - slope[h] * |distance|.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace phasor {

struct AlibiConfig {
  static constexpr std::string_view kEncoding = "alibi";
  // Causal: keys after the query get no bias (a causal mask hides them), which halves the table.
  bool causal = false;
  bool learnable = false;  // slopes become a parameter [H, 1]
};

// The authors' slopes. For n = 2^k heads slope[h] = 2^(-8(h+1)/n), h = 0 .. n-1; otherwise those of the next lower
// power of two P, then every second one of 2P: 2^(-4(2(h-P)+1)/P) for h = P .. n-1.
std::vector<float> alibi_slopes(std::int64_t heads);

}  // namespace phasor
