// What the lowering of W2 does to rows of floats.
#pragma once

#include <cstdint>

namespace phasor::detail {

// a . b, summed in double.
double dot(const float* a, const float* b, std::int64_t count);

// Each of `count` rows, `stride` apart, less x.
void subtract_from_rows(const float* x, std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride);

}  // namespace phasor::detail
