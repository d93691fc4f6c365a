// How elements get their random numbers, and the input of the dropout kernel.
#pragma once

#include <cstdint>

namespace phasor::detail {

// Elements in the order of n * C + c in groups of 256, which share 64 blocks of four random numbers.
constexpr std::int64_t kDropoutBlocks = 64, kDropoutGroup = 4 * kDropoutBlocks;
// Attention numbers its streams from 0.
constexpr std::uint64_t kDropoutStream = ~std::uint64_t{0};

struct DropoutRows {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t x_stride = 0, y_stride = 0, columns = 0, count = 0;
};

}  // namespace phasor::detail
