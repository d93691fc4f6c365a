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

// Steps of the depth. A block of c is summed so many at a time, in order: what it needs of a and b stays in the
// second-level cache.
struct MatmulSteps {
  std::int64_t first = 0, count = 0;
};
constexpr std::int64_t kMatmulDepth = 512;

// Some steps of some rows of a, or of some columns of b.
struct MatmulPart {
  std::int64_t first = 0, count = 0;
  MatmulSteps steps = {};
};

// Columns of b as panels [panel][steps][lanes], or rows of a as tiles [tile][steps][rows of a tile]. a is packed only
// if stored by columns: columns that lie a power of two apart would fall into the same few sets of the cache.
struct PackedOperand {
  float* data = nullptr;   // none: read in place
  std::int64_t first = 0;  // row or column, the first of a tile or panel
  MatmulSteps steps = {};

  // From the given row or column on, which begins a tile or panel of that `size`.
  float* at(std::int64_t index, std::int64_t step, std::int64_t size) const {
    return data + (index - first) * steps.count + (step - steps.first) * size;
  }
};

// Stored so that a step along the given dimension is a step in memory.
inline bool is_contiguous_along(const TensorView<const float, 2>& x, std::size_t dimension) {
  return x.strides[dimension] == 1 || x.shape[dimension] <= 1;
}

}  // namespace phasor::detail
