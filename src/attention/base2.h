// Softmax works in base 2: e^x = 2^(x log2 e).
#pragma once

#include <algorithm>
#include <limits>

namespace phasor::detail {

constexpr float kLog2E = 1.44269504088896341f;
constexpr double kLn2 = 0.693147180559945309417;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A finite bias stays finite: rows whose keys all carry the lowest float, as some masks have it, keep their softmax.
inline float to_base_2(float natural) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return natural == -kInfinity ? natural : std::max(natural * kLog2E, -kMost);
}

}  // namespace phasor::detail
