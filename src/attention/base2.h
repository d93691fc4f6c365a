// Softmax works in base 2: e^x = 2^(x log2 e).
#pragma once

#include <algorithm>
#include <limits>

namespace phasor::detail {

constexpr float kLog2E = 1.44269504088896341f;
constexpr double kLn2 = 0.693147180559945309417;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A finite bias that stays finite when it is multiplied by log2(e): rows whose keys all have the lowest float as bias,
// as in some masks, keep their softmax. -infinity stays: it hides the key.
inline float bounded_bias(float bias) {
  constexpr float kLeast = -2.358e38f;  // just above the lowest float divided by log2(e)
  return bias == -kInfinity ? bias : std::max(bias, kLeast);
}

}  // namespace phasor::detail
