// Rows of numbers as 8-bit whole numbers with one scale: row[c] is about scale * numbers[c]. The same bits on every
// target.
#pragma once

#include <cstdint>

namespace phasor::detail {

// Returns the scale: the largest |row[c]| / 127. Numbers are row[c] / scale, rounded to nearest, ties to even, -127 to
// 127. A row of zeros has scale 0. A row with NaN or infinity has scale NaN, so that all of it reads as NaN.
float quantize_row(const float* row, std::int8_t* numbers, std::int64_t count);

void dequantize_row(const std::int8_t* numbers, float scale, float* row, std::int64_t count);

}  // namespace phasor::detail
