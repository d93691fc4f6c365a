// Input of the norm kernels: some rows, and the values that all rows share.
#pragma once

#include <cstdint>

namespace phasor::detail {

struct NormSettings {
  const float* weight = nullptr;
  const float* bias = nullptr;  // null in RmsNorm
  std::int64_t channels = 0;
  float eps = 0;
  bool centred = false;        // the mean is subtracted: LayerNorm
  bool rounds_before = false;  // to storage, before the weight
};

template <class T>
struct NormForward {
  const T* x = nullptr;
  T* y = nullptr;
  std::int64_t x_stride = 0, y_stride = 0, rows = 0;
  float* mean = nullptr;  // of each row; null if not requested
  float* inverse = nullptr;
};

struct NormBackward {
  const float *x = nullptr, *grad_y = nullptr;
  float* grad_x = nullptr;
  std::int64_t x_stride = 0, grad_y_stride = 0, grad_x_stride = 0, rows = 0;
  const float* mean = nullptr;
  const float* inverse = nullptr;
  float* grad_weight = nullptr;  // sums over these rows; grad_bias is null in RmsNorm
  float* grad_bias = nullptr;
  bool adds = false;
};

}  // namespace phasor::detail
