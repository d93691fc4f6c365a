// Sums over rows: gradients of what all rows share, such as a bias.
#pragma once

#include <cstdint>

#include "phasor/core/tensor.h"

namespace phasor::detail {

// Columns of one task: their sums stay in the first-level cache while all rows pass.
constexpr std::int64_t kColumnStripe = 256;

// sums[c] += the sum of x(n, c) over n, for x [N, C] with contiguous rows. The order of summation depends on N alone.
void add_column_sums(TensorView<const float, 2> x, float* sums);

}  // namespace phasor::detail
