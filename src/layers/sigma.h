// Standard deviations of log variances, sigma = exp(l / 2), and the way of gradients back.
#pragma once

#include <cstddef>
#include <span>

#include "phasor/core/tensor.h"

namespace phasor::detail {

// sigma is 0 from l = -139.3 down and e^88 from l = 176 up, so that it is finite; NaN stays NaN. Contiguous tensors of
// one size. sigma may be log_variance itself.
void sigma_forward(std::span<const float> log_variance, std::span<float> sigma);

// grad = grad * sigma / 2, in place: from the gradient of sigma to that of the log variance.
void sigma_backward(std::span<const float> sigma, std::span<float> grad);

// All elements of contiguous memory.
template <class T, int Rank>
std::span<T> all(const TensorView<T, Rank>& x) {
  return {x.data, static_cast<std::size_t>(x.size())};
}

}  // namespace phasor::detail
