// Operations of the W2 lowering on rows of floats.
#pragma once

#include <cstdint>

namespace phasor::detail {

// a . b, summed in double.
double dot(const float* a, const float* b, std::int64_t count);

// Subtracts x from each of `count` rows, `stride` apart.
void subtract_from_rows(const float* x, std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride);

// Rounds the numbers to the nearest of bf16.
void round_rows_to_bf16(std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride);

// sigma = exp(log_sigma / 2) in place, at most e^88; NaN stays NaN.
void sigma_of_rows(std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride);

// gradient *= sigma / 2. A gradient of 0 stays 0: that of a hidden key, whose sigma may be NaN.
void multiply_by_half(const float* sigma, std::int64_t count, float* gradient);

}  // namespace phasor::detail
