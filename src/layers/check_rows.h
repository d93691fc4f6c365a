// Checks of [N, C] tensors, the inputs and results of most layers.
#pragma once

#include <cstdint>

#include "phasor/core/tensor.h"

namespace phasor::detail {

constexpr std::int64_t kAnyCount = -1;

// x is [rows, columns], its rows contiguous; `rows` may be kAnyCount.
template <class T>
void check_rows(const char* layer, const char* name, const TensorView<T, 2>& x, std::int64_t rows,
                std::int64_t columns) {
  PHASOR_CHECK(rows != kAnyCount || x.shape[1] == columns, layer, name, ": ", shape_text(x.shape), ", expected [N, ",
               columns, "]");
  PHASOR_CHECK(rows == kAnyCount || x.shape == Shape<2>({rows, columns}), layer, name, ": ", shape_text(x.shape),
               ", expected [", rows, ", ", columns, "]");
  PHASOR_CHECK(x.has_contiguous_rows(), layer, name, ": last stride ", x.strides[1], ", expected 1");
}

}  // namespace phasor::detail
