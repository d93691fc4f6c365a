// Dropout of elements: each is 0 with probability `rate`, else divided by 1 - rate.
#pragma once

#include <cstdint>

#include "phasor/core/tensor.h"

namespace phasor {

struct Dropout {
  double rate = 0.0;  // in [0, 1)
  std::uint64_t seed = 0;
};

// y(n, c) = x(n, c) * factor, for [N, C]; y may be x itself. Which elements are dropped depends on the seed and on
// n * C + c alone, so nothing is stored: the gradient is the same function of the gradient of y. Use another seed for
// each step and each place in a model. Attention's own dropout draws other numbers from the same seed.
void dropout(const Dropout& settings, TensorView<const float, 2> x, TensorView<float, 2> y);

}  // namespace phasor
