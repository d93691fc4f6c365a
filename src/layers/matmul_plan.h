// What a kernel needs to know of a product, and of the part of it that one task makes.
#pragma once

#include <cstdint>

#include "matmul.h"

namespace phasor::detail {

struct MatmulJob {
  TensorView<const float, 2> a, b;
  TensorView<float, 2> c;
  Into into = Into::write;
  const float* bias = nullptr;

  std::int64_t depth() const { return a.shape[1]; }
};

struct MatmulBlock {
  std::int64_t first_row = 0, rows = 0, first_column = 0, columns = 0;
};

// Steps of the depth that are made before others, and their operands packed: b as panels [panel][steps][lanes], a as
// tiles [tile][steps][rows of a tile]. a is packed only if stored by columns: columns that lie a power of two apart
// would fall into the same few sets of the cache.
struct MatmulPass {
  float* a = nullptr;  // none: read in place
  float* b = nullptr;
  std::int64_t first_row = 0, first_column = 0;  // of what is packed
  std::int64_t first_step = 0, steps = 0;
};

// Stored so that a step along the given dimension is a step in memory.
inline bool is_contiguous_along(const TensorView<const float, 2>& x, std::size_t dimension) {
  return x.strides[dimension] == 1 || x.shape[dimension] <= 1;
}

}  // namespace phasor::detail
