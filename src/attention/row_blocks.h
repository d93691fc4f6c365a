// Work on all rows of a tensor [B, H, rows, channels], in parallel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "phasor/core/parallel.h"
#include "phasor/core/tensor.h"

namespace phasor::detail {

// Rows of one head of one batch entry that a task works on.
struct RowBlock {
  std::int64_t b = 0, h = 0, first = 0, count = 0;
  std::int64_t index = 0;  // counts all blocks of the tensor
};

constexpr std::int64_t kRowsOfABlock = 64;
inline std::int64_t blocks_of_rows(std::int64_t rows) { return (rows + kRowsOfABlock - 1) / kRowsOfABlock; }

// Calls body(RowBlock). Blocks depend on the shape alone.
template <class Body>
void for_row_blocks(const Shape<4>& shape, const Body& body) {
  const std::int64_t blocks = blocks_of_rows(shape[2]), tasks = shape[0] * shape[1] * blocks;
  const auto task = [&](std::int64_t index) {
    const std::int64_t head = index / blocks, first = index % blocks * kRowsOfABlock;
    body(RowBlock{head / shape[1], head % shape[1], first, std::min(kRowsOfABlock, shape[2] - first), index});
  };
  constexpr std::int64_t kWorthThreads = 1 << 15;  // elements: about what one thread copies while another wakes up
  if (element_count(shape) < kWorthThreads) {
    for (std::int64_t i = 0; i < tasks; i++) task(i);
  } else {
    parallel_for(tasks, task);
  }
}

}  // namespace phasor::detail
