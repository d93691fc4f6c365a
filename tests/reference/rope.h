// RoPE in plain loops and higher precision: the specification that tables and kernels are tested against.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "phasor/position/plan.h"

namespace phasor::reference {

// The sine and cosine of position * inv_freq, with a 64-bit fraction.
inline long double angle(std::int64_t position, long double inv_freq) {
  return static_cast<long double>(position) * inv_freq;
}

inline std::vector<long double> plain_inv_freq(long double theta, std::int64_t channels) {
  std::vector<long double> result;
  for (std::int64_t i = 0; i < channels / 2; i++)
    result.push_back(std::pow(theta, -2.0L * static_cast<long double>(i) / static_cast<long double>(channels)));
  return result;
}

// One head at one token: out = R x, or R^T x.
inline std::vector<double> rotate(const std::vector<double>& x, const std::vector<double>& cos,
                                  const std::vector<double>& sin, Pairing pairing, bool transpose) {
  std::vector<double> out = x;
  const std::size_t pairs = cos.size();
  for (std::size_t i = 0; i < pairs; i++) {
    const std::size_t first = pairing == Pairing::half ? i : 2 * i;
    const std::size_t second = pairing == Pairing::half ? i + pairs : 2 * i + 1;
    const double s = transpose ? -sin[i] : sin[i];
    out[first] = x[first] * cos[i] - x[second] * s;
    out[second] = x[first] * s + x[second] * cos[i];
  }
  return out;
}

}  // namespace phasor::reference
