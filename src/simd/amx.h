// Float products on tiles of bf16 (AMX). A float of 24 bits is the sum of three bf16 of 8 bits each:
//
//   a = a1 + a2 + a3,  b = b1 + b2 + b3
//   a b = a1 b1 + (a1 b2 + a2 b1) + (a1 b3 + a2 b2 + a3 b1) + at most 2^-23 |a b|
//
// Products of bf16 are exact in the float sums that the tiles hold, so six products of tiles give a product of floats,
// in about half the time of float instructions, and since fewer sums are rounded, with a smaller error
// (docs/numerics.md).
//
// A tile is 16 rows of 64 bytes: 16 rows of a by 32 steps of the depth, 16 columns of b by 32 steps, or 16 x 16 floats
// of c. Operands are packed in units of two tiles, 32 rows of a or 32 columns of b by 32 steps, with their three parts
// one after the other: [part][half][tile].
#pragma once

#include <cstddef>
#include <cstdint>

namespace phasor {

// Whether the target in use is AMX. Highway does not know it as a target; kernels that have a version for it ask here.
bool uses_amx();

}  // namespace phasor

namespace phasor::amx {

constexpr std::int64_t kSide = 16, kUnit = 2 * kSide, kSteps = 32, kParts = 3;
constexpr std::int64_t kTileBytes = 1024, kPartBytes = 2 * kTileBytes, kUnitBytes = kParts * kPartBytes;

inline std::int64_t units(std::int64_t count) { return (count + kUnit - 1) / kUnit; }

// The meaning of the rows of a tile: for a, one of its rows; for b, one pair of steps.
enum class TileRows { indices, steps };

// Rows of a or columns of b, which are its indices, by steps of the depth; one of the strides is 1.
struct Operand {
  const float* data = nullptr;
  std::int64_t index_stride = 0, step_stride = 0;
  std::int64_t indices = 0, steps = 0;  // zeros are packed beyond these
};

// The unit of 32 indices and 32 steps that begins at data; memory is aligned to 64 bytes.
void pack_unit(const Operand& x, TileRows rows, std::byte* to);

// 32 rows of 32 floats; a stride of 0 repeats the same row.
template <class T>
struct Square {
  T* data;
  std::int64_t stride;
};

// c = start + a b: one unit of rows by one of columns, `steps` of the depth, whose units follow each other in
// memory. At the same time the lines of `next`, the following square, are prefetched; it may be outside of c.
void multiply_units(const std::byte* a, const std::byte* b, std::int64_t steps, Square<const float> start,
                    Square<float> c, Square<const float> next);

// The start of a product without one.
inline Square<const float> zeros() {
  alignas(64) static constexpr float kZeros[kUnit] = {};
  return {kZeros, 0};
}

// Held while a thread multiplies: tiles are set up before and released after, because the system saves them at a high
// cost. A state that was set up before, as other libraries do for their next call, is restored.
class Tiles {
 public:
  Tiles();
  ~Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

 private:
  alignas(64) std::uint8_t before_[64] = {};
};

}  // namespace phasor::amx
