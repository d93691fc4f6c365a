// Sums over rows: gradients of values that all rows share, such as a bias.
#pragma once

#include <cstdint>

#include "phasor/core/tensor.h"

namespace phasor::detail {

// Columns per task: their sums stay in the first-level cache during the pass over all rows.
constexpr std::int64_t kColumnStripe = 256;

// sums[c] += the sum of x(n, c) over n, for x [N, C] with contiguous rows. The order of summation depends on N alone.
void add_column_sums(TensorView<const float, 2> x, float* sums);

}  // namespace phasor::detail
