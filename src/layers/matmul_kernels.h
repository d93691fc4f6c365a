// How products are split into parts, and the functions that compute the parts with one instruction set.
#pragma once

#include <cstdint>

#include "matmul.h"

namespace phasor::detail {

struct MatmulBlock {
  std::int64_t first_row = 0, rows = 0, first_column = 0, columns = 0;
};

// Steps of the depth that are summed at a time, in order: the parts of a and b then fit in the second-level cache.
struct MatmulSteps {
  std::int64_t first = 0, count = 0;
};
constexpr std::int64_t kMatmulDepth = 512;

// Some steps of some rows of a, or of some columns of b.
struct MatmulPart {
  std::int64_t first = 0, count = 0;
  MatmulSteps steps = {};
};

// Rows of a or columns of b, in units that the kernel processes at once: [unit][steps][rows or columns of the unit].
struct PackedOperand {
  float* data = nullptr;   // none: read in place
  std::int64_t first = 0;  // row or column, the first of a unit
  MatmulSteps steps = {};

  // From the given row or column on, which begins a unit of that `size`.
  float* at(std::int64_t index, std::int64_t step, std::int64_t size) const {
    return data + (index - first) * steps.count + (step - steps.first) * size;
  }
};

// Stored so that a step along the given dimension is a step in memory.
inline bool is_contiguous_along(const TensorView<const float, 2>& x, std::size_t dimension) {
  return x.strides[dimension] == 1 || x.shape[dimension] <= 1;
}

struct MatmulKernels {
  std::int64_t rows = 0, columns = 0;  // of a unit
  std::int64_t steps = 1;              // that are packed together, with zeros beyond the last
  std::int64_t bytes = sizeof(float);  // of an element that is packed
  // Otherwise only an a that is stored by columns is packed: columns that are a power of two apart would share a few
  // cache sets.
  bool always_packs_rows = false;
  std::int64_t packed_rows = 96;  // by a task at once

  // Parts begin with a unit.
  void (*pack_rows)(const MatmulJob&, const MatmulPart&, const PackedOperand&) = nullptr;
  void (*pack_columns)(const MatmulJob&, const MatmulPart&, const PackedOperand&) = nullptr;
  // Adds some steps of the depth to a block of c. The first call adds the bias, and overwrites c if the job says so.
  void (*multiply_block)(const MatmulJob&, const MatmulBlock&, const MatmulSteps&, const PackedOperand& a,
                         const PackedOperand& b) = nullptr;
  // All steps, nothing packed, for a stored by rows and b by columns.
  void (*multiply_few_rows)(const MatmulJob&, const MatmulBlock&) = nullptr;
};

// In the vectors of the SIMD target in use.
MatmulKernels fma_kernels();
// On tiles of bf16, where the CPU has them.
MatmulKernels amx_kernels();

}  // namespace phasor::detail
