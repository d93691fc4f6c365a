// The residual state of a transformer: [B, T, C], one stream, mu, or two where tokens are Gaussians. The second,
// log_sigma, is the log of the VARIANCE: sigma = exp(log_sigma / 2). The name is the W2 transformer's.
#pragma once

#include <type_traits>

#include "phasor/core/tensor.h"

namespace phasor {

template <class T>
struct BasicStreams {
  TensorView<T, 3> mu{};
  TensorView<T, 3> log_sigma{};  // without data: there is one stream

  bool gaussian() const { return log_sigma.data != nullptr; }

  // Streams of mutable memory are also streams for reading.
  operator BasicStreams<const T>() const requires(!std::is_const_v<T>) { return {mu, log_sigma}; }
};

using Streams = BasicStreams<float>;
using ConstStreams = BasicStreams<const float>;

}  // namespace phasor
