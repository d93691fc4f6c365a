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

// x is a whole operand. Memory is read in its own order.
void pack(const amx::Source& x, amx::TileRows tile_rows, const Range& indices, const Range& depth,
          const PackedOperand& to) {
  const auto pack_unit = [&](const Range& unit, const Range& depth_unit) {
    const amx::Source part{x.data + unit.first * x.index_stride + depth_unit.first * x.depth_stride, x.index_stride,
                           x.depth_stride, unit.count, depth_unit.count};
    amx::pack_unit(part, tile_rows, unit_at(to, unit.first, depth_unit.first));
  };
  if (x.depth_stride == 1)
    for_each_part(indices, kUnit, [&](const Range& unit) {
      for_each_part(depth, kDepth, [&](const Range& depth_unit) { pack_unit(unit, depth_unit); });
    });
  else
    for_each_part(depth, kDepth, [&](const Range& depth_unit) {
      for_each_part(indices, kUnit, [&](const Range& unit) { pack_unit(unit, depth_unit); });
    });
}

void pack_a(const Operand& a, const Range& rows, const Range& depth, const PackedOperand& to) {
  pack({a.data, a.strides[0], is_contiguous_along(a, 1) ? 1 : a.strides[1]}, amx::TileRows::indices, rows, depth, to);
}

void pack_b(const Operand& b, const Range& columns, const Range& depth, const PackedOperand& to) {
  pack({b.data, b.strides[1], is_contiguous_along(b, 0) ? 1 : b.strides[0]}, amx::TileRows::depth_pairs, columns, depth,
       to);
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
