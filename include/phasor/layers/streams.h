// The residual state of a transformer: [B, T, C], one stream, or two where tokens are Gaussians. The second stream is
// the log of the VARIANCE, sigma = exp(log_variance / 2). The W2 transformer's API calls it log_sigma.
#pragma once

#include <type_traits>

#include "phasor/core/tensor.h"

namespace phasor {

template <class T>
struct BasicStreams {
  TensorView<T, 3> mean{};
  TensorView<T, 3> log_variance{};  // without data: there is one stream

  bool gaussian() const { return log_variance.data != nullptr; }

  // Streams of mutable memory are also streams for reading.
  operator BasicStreams<const T>() const requires(!std::is_const_v<T>) { return {mean, log_variance}; }
};

using Streams = BasicStreams<float>;
using ConstStreams = BasicStreams<const float>;

}  // namespace phasor
