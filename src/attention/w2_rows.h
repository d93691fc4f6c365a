// Operations of the W2 lowering on rows of floats.
#pragma once

#include <cstdint>

namespace phasor::detail {

// a . b, summed in double.
double dot(const float* a, const float* b, std::int64_t count);

// Subtracts x from each of `count` rows, `stride` apart.
void subtract_from_rows(const float* x, std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride);

}  // namespace phasor::detail
