// The kernels of a product on tiles of bf16: see amx.h.
#include <algorithm>

#include "amx.h"
#include "kernels.h"

namespace phasor::products {
namespace {

using amx::kDepth, amx::kUnit, amx::kUnitBytes;

// The unit that begins with this row or column, from index k of the depth on.
std::byte* unit_at(const PackedOperand& packed, std::int64_t index, std::int64_t k) {
  const std::int64_t unit = (index - packed.first) / kUnit, depth_unit = (k - packed.depth.first) / kDepth;
  return packed.data + (unit * ceil_div(packed.depth.count, kDepth) + depth_unit) * kUnitBytes;
}

// Where an operand has an index, a row of a or a column of b, and an index of the depth.
template <class T>
struct Strided {
  const T* data;
  std::int64_t index_stride, depth_stride;  // one of them is 1

  Strided at(std::int64_t index, std::int64_t k) const {
    return {data + index * index_stride + k * depth_stride, index_stride, depth_stride};
  }
};

void pack_unit(const Strided<float>& x, const Range& unit, const Range& depth_unit, amx::TileRows tile_rows,
               std::byte* to) {
  amx::pack_unit({x.data, x.index_stride, x.depth_stride, unit.count, depth_unit.count}, tile_rows, to);
}

// Elements of 16 bits are widened first, in the same order.
template <class T>
void pack_unit(const Strided<T>& x, const Range& unit, const Range& depth_unit, amx::TileRows tile_rows,
               std::byte* to) {
  alignas(64) float wide[kUnit * kDepth];
  static_assert(kUnit == kDepth);
  const bool along_depth = x.depth_stride == 1;
  const std::int64_t lines = along_depth ? unit.count : depth_unit.count;
  const auto length = static_cast<std::size_t>(along_depth ? depth_unit.count : unit.count);
  for (std::int64_t i = 0; i < lines; i++)
    for (std::size_t j = 0; j < length; j++)
      wide[static_cast<std::size_t>(i * kUnit) + j] = static_cast<float>(
          x.data[i * (along_depth ? x.index_stride : x.depth_stride) + static_cast<std::int64_t>(j)]);
  pack_unit(Strided<float>{wide, along_depth ? kUnit : 1, along_depth ? 1 : kUnit}, unit, depth_unit, tile_rows, to);
}

// x is a whole operand. Memory is read in its own order.
template <class T>
void pack(const Strided<T>& x, amx::TileRows tile_rows, const Range& indices, const Range& depth,
          const PackedOperand& to) {
  const auto pack_at = [&](const Range& unit, const Range& depth_unit) {
    pack_unit(x.at(unit.first, depth_unit.first), unit, depth_unit, tile_rows,
              unit_at(to, unit.first, depth_unit.first));
  };
  if (x.depth_stride == 1)
    for_each_part(indices, kUnit, [&](const Range& unit) {
      for_each_part(depth, kDepth, [&](const Range& depth_unit) { pack_at(unit, depth_unit); });
    });
  else
    for_each_part(depth, kDepth, [&](const Range& depth_unit) {
      for_each_part(indices, kUnit, [&](const Range& unit) { pack_at(unit, depth_unit); });
    });
}

void pack_a(const Operand& a, const Range& rows, const Range& depth, const PackedOperand& to) {
  const Strided<float> x{a.view<float>().data, a.strides[0], is_contiguous_along(a, 1) ? 1 : a.strides[1]};
  pack(x, amx::TileRows::indices, rows, depth, to);
}

void pack_b(const Operand& b, const Range& columns, const Range& depth, const PackedOperand& to) {
  const std::int64_t depth_stride = is_contiguous_along(b, 0) ? 1 : b.strides[0];
  b.visit([&]<class T>(const TensorView<const T, 2>& view) {
    pack(Strided<T>{view.data, b.strides[1], depth_stride}, amx::TileRows::depth_pairs, columns, depth, to);
  });
}

// A unit of rows by a unit of columns of c, smaller at the edges of the block.
class SquareOfC {
 public:
  SquareOfC(const Product& product, const Block& block, const Range& depth, std::int64_t row, std::int64_t column)
      : c_(product.c.data + row * product.c.strides[0] + column),
        stride_(product.c.strides[0]),
        rows_(std::min(kUnit, block.rows.end() - row)),
        columns_(std::min(kUnit, block.columns.end() - column)),
        adds_(depth.first > 0 || product.accumulate),
        bias_(!product.bias.empty() && depth.first == 0 ? product.bias.data() + column : nullptr),
        next_(row + kUnit >= block.rows.end() ? c_ + (block.rows.first - row) * stride_ + kUnit
                                              : c_ + kUnit * stride_) {}

  // In place, unless the square is smaller than a unit, or starts with the sum of c and the bias.
  void multiply(const std::byte* a, const std::byte* b, std::int64_t depth) const {
    if (rows_ < kUnit || columns_ < kUnit || (adds_ && bias_))
      multiply_in_buffer(a, b, depth);
    else if (adds_)
      amx::multiply_units(a, b, depth, {c_, stride_}, {c_, stride_}, {next_, stride_});
    else
      amx::multiply_units(a, b, depth, bias_ ? amx::Square<const float>{bias_, 0} : amx::zeros(), {c_, stride_},
                          {next_, stride_});
  }

 private:
  void multiply_in_buffer(const std::byte* a, const std::byte* b, std::int64_t depth) const {
    alignas(64) float buffer[kUnit * kUnit] = {};
    for (std::int64_t i = 0; i < rows_; i++)
      for (std::int64_t j = 0; j < columns_; j++)
        buffer[i * kUnit + j] = (adds_ ? c_[i * stride_ + j] : 0.0f) + (bias_ ? bias_[j] : 0.0f);
    amx::multiply_units(a, b, depth, {buffer, kUnit}, {buffer, kUnit}, {next_, stride_});
    for (std::int64_t i = 0; i < rows_; i++) std::copy_n(buffer + i * kUnit, columns_, c_ + i * stride_);
  }

  float* c_;
  std::int64_t stride_, rows_, columns_;
  bool adds_;          // to c
  const float* bias_;  // if any
  const float* next_;  // the square below, or the first of the next columns
};

void multiply_block(const Product& product, const Block& block, const Range& depth, const PackedOperand& a,
                    const PackedOperand& b) {
  const amx::Tiles tiles;
  for (std::int64_t j = block.columns.first; j < block.columns.end(); j += kUnit)
    for (std::int64_t i = block.rows.first; i < block.rows.end(); i += kUnit)
      SquareOfC(product, block, depth, i, j)
          .multiply(unit_at(a, i, depth.first), unit_at(b, j, depth.first), depth.count);
}

}  // namespace

Kernels amx_kernels() {
  return {.smallest_dimension = 64,  // for smaller products, splitting floats into bf16 costs more than it gains
          .row_unit = kUnit,
          .column_unit = kUnit,
          .depth_unit = kDepth,
          .packed_bytes = kUnitBytes / kUnit / kDepth,
          .always_packs_a = true,
          .packed_rows = 128,  // 384 KiB in a slice, three bf16 for each float; fewer were slower
          .pack_a = pack_a,
          .pack_b = pack_b,
          .multiply_block = multiply_block};
}

}  // namespace phasor::products
