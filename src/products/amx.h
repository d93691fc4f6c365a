// Float products on tiles of bf16 (AMX). A float of 24 bits is the sum of three bf16 of 8 bits each:
//
//   a = a1 + a2 + a3,  b = b1 + b2 + b3
//   a b = a1 b1 + (a1 b2 + a2 b1) + (a1 b3 + a2 b2 + a3 b1) + at most 2^-23 |a b|
//
// Products of bf16 are exact in the float sums that the tiles hold, so six products of tiles give a product of floats.
// They take about half the time of float instructions. Fewer sums are rounded, so the error is smaller
// (docs/numerics.md).
//
// A tile is 16 rows of 64 bytes: 16 rows of a by a depth of 32, 16 columns of b by a depth of 32, or 16 x 16 floats of
// c. Operands are packed in units of two tiles, 32 rows of a or 32 columns of b by a depth of 32. A unit has its three
// parts one after the other: [part][half][tile].
#pragma once

#include <cstddef>
#include <cstdint>

namespace phasor::products::amx {

constexpr std::int64_t kSide = 16, kUnit = 2 * kSide, kDepth = 32, kParts = 3;
constexpr std::int64_t kTileBytes = 1024, kPartBytes = 2 * kTileBytes, kUnitBytes = kParts * kPartBytes;

// What a row of a tile holds: a row of a, or two indices of the depth of b for all its columns.
enum class TileRows { indices, depth_pairs };

// Rows of a or columns of b (the indices) by the depth, as they are stored; one of the strides is 1.
struct Source {
  const float* data = nullptr;
  std::int64_t index_stride = 0, depth_stride = 0;
  std::int64_t indices = 0, depth = 0;  // zeros are packed beyond these
};

// Packs the unit that begins at x.data. The memory of `to` is aligned to 64 bytes.
void pack_unit(const Source& x, TileRows rows, std::byte* to);

// 32 rows of 32 floats; a stride of 0 repeats the same row.
template <class T>
struct Square {
  T* data;
  std::int64_t stride;
};

// c = start + a b: one unit of rows by one of columns. The units of the depth follow each other in memory. Meanwhile
// the next square of c is prefetched; it may be outside of c.
void multiply_units(const std::byte* a, const std::byte* b, std::int64_t depth, Square<const float> start,
                    Square<float> c, Square<const float> next);

// The start of a product that adds to nothing.
inline Square<const float> zeros() {
  alignas(64) static constexpr float kZeros[kUnit] = {};
  return {kZeros, 0};
}

// Held while a thread multiplies. Tiles are configured before and released after, because the system saves configured
// tiles at a high cost. A configuration that another library has left for its next call is restored.
class Tiles {
 public:
  Tiles();
  ~Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

 private:
  [[maybe_unused]] alignas(64) std::uint8_t before_[64] = {};  // unused where there is no AMX
};

}  // namespace phasor::products::amx
