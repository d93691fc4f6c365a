// The kernels of a product with one instruction set, and the layout of the operands that they pack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "multiply.h"
#include "ranges.h"

namespace phasor::products {

// Depth that is multiplied at once. With less, c is loaded and stored more often. With more, packed operands leave the
// second-level cache: 1024 made weight gradients up to 8 % slower. Sums are rounded to c after each slice, so the bits
// of c depend on this number.
constexpr std::int64_t kDepthSlice = 512;

// A block of c.
struct Block {
  Range rows, columns;
};

// Rows of a or columns of b, converted to what a kernel reads. Units of rows or columns follow each other, each with
// the whole depth: [unit][depth][rows or columns of the unit].
struct PackedOperand {
  std::byte* data = nullptr;  // null if the operand is read in place
  std::int64_t first = 0;     // row or column, the first of a unit
  Range depth = {};
};

// Whether consecutive elements along the dimension are neighbours in memory.
inline bool is_contiguous_along(const Operand& x, std::size_t dimension) {
  return x.strides[dimension] == 1 || x.shape[dimension] <= 1;
}

struct Kernels {
  // Products with fewer rows, columns or depth use the vector kernels.
  std::int64_t smallest_dimension = 0;
  // Rows of a and columns of b in a packed unit. The depth is padded with zeros to a multiple of depth_unit.
  std::int64_t row_unit = 0, column_unit = 0, depth_unit = 1;
  // Of an element as it is packed, which may differ from the element of the operand.
  std::int64_t packed_bytes = sizeof(float);
  // Otherwise only an a that is stored by columns is packed: columns that are a power of two apart would share a few
  // cache sets.
  bool always_packs_a = false;
  // Rows of a that a task packs at once: they stay in the second-level cache while all columns of its block pass.
  std::int64_t packed_rows = 0;

  // Whether a may be of bf16; b always may.
  bool takes_bf16_a = false;

  // Ranges of rows and columns begin with a unit, ranges of the depth with a multiple of depth_unit.
  void (*pack_a)(const Operand& a, const Range& rows, const Range& depth, const PackedOperand& to) = nullptr;
  void (*pack_b)(const Operand& b, const Range& columns, const Range& depth, const PackedOperand& to) = nullptr;
  // Adds a range of the depth to a block of c. The range from 0 also adds the bias, and overwrites c unless the product
  // accumulates.
  void (*multiply_block)(const Product&, const Block&, const Range& depth, const PackedOperand& a,
                         const PackedOperand& b) = nullptr;
};

// The fastest kernels for the product on the SIMD target in use.
Kernels kernels_for(const Product& product);

// Floats on tiles of AMX.
Kernels amx_kernels();

// Operands rounded to bf16, where there are instructions for them (pairs.h).
Kernels pair_kernels();
bool multiplies_pairs(const Product& product);

}  // namespace phasor::products
