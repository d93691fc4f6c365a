// Sums of tensors, element by element.
#pragma once

#include <cstdint>

#include "phasor/core/tensor.h"

namespace phasor::detail {

// to += from: [N, C] both, rows contiguous.
void add_rows(TensorView<const float, 2> from, TensorView<float, 2> to);

// A kernel that adds one row, to[i] += from[i], on the calling thread.
using RowAdder = void (*)(const float* from, float* to, std::int64_t count);
RowAdder row_adder();

}  // namespace phasor::detail
