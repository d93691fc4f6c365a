// Inputs of benchmarks.
#pragma once

#include <cstddef>
#include <vector>

#include "phasor/core/random.h"
#include "phasor/core/tensor.h"

namespace phasor::bench {

// Normal numbers. A million are drawn once and repeated, because cases are set up anew for every repetition; the count
// is a prime, so that rows differ.
template <class T, int Rank>
Tensor<T, Rank> random_tensor(const Shape<Rank>& shape, std::size_t seed) {
  static const std::vector<float> drawn = [] {
    std::vector<float> values(1'000'003);
    Philox(1).fill_normal(values);
    return values;
  }();
  Tensor<T, Rank> result(shape);
  std::size_t next = seed * 123'457 % drawn.size();
  for (T& value : result) {
    value = static_cast<T>(drawn[next]);
    next = next + 1 < drawn.size() ? next + 1 : 0;
  }
  return result;
}

}  // namespace phasor::bench
