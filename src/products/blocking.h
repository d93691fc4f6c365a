// How a product is split: into parallel regions, one after the other, and each of these into blocks of c, one task
// each. Only kDepthSlice, by which the depth is summed, changes the bits of c.
#pragma once

#include <cstdint>

#include "kernels.h"

namespace phasor::products {

// A product with this many multiplications or fewer takes a few microseconds, about as long as waking a thread.
constexpr std::int64_t kSmallProduct = std::int64_t{1} << 17;

struct Blocking {
  bool packs_a = false;                               // by the task that uses it
  bool shares_b = false;                              // b is packed by all threads for all tasks, else by each task
  std::int64_t block_rows = 0, block_columns = 0;     // of c, for a task
  std::int64_t region_columns = 0, region_depth = 0;  // of b, for a parallel region
};

Blocking choose_blocking(const Product& product, const Kernels& kernels);

}  // namespace phasor::products
