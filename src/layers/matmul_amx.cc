// The products of matmul on tiles of bf16: see simd/amx.h.
#include <algorithm>

#include "matmul_kernels.h"
#include "simd/amx.h"

namespace phasor::detail {
namespace {

using amx::kSteps, amx::kUnit, amx::kUnitBytes;

// Where the unit of 32 rows or columns and 32 steps is.
std::byte* unit_at(const PackedOperand& packed, std::int64_t index, std::int64_t step) {
  const std::int64_t unit = (index - packed.first) / kUnit, steps = (step - packed.steps.first) / kSteps;
  return reinterpret_cast<std::byte*>(packed.data) + (unit * amx::units(packed.steps.count) + steps) * kUnitBytes;
}

// x is a whole operand. Memory is read in its own order.
void pack(const amx::Operand& x, amx::TileRows rows, const MatmulPart& part, const PackedOperand& packed) {
  const auto pack_unit = [&](std::int64_t i, std::int64_t k) {
    const std::int64_t index = part.first + i, step = part.steps.first + k;
    amx::Operand unit = x;
    unit.data += index * x.index_stride + step * x.step_stride;
    unit.indices = part.count - i, unit.steps = part.steps.count - k;
    amx::pack_unit(unit, rows, unit_at(packed, index, step));
  };
  if (x.step_stride == 1)
    for (std::int64_t i = 0; i < part.count; i += kUnit)
      for (std::int64_t k = 0; k < part.steps.count; k += kSteps) pack_unit(i, k);
  else
    for (std::int64_t k = 0; k < part.steps.count; k += kSteps)
      for (std::int64_t i = 0; i < part.count; i += kUnit) pack_unit(i, k);
}

void pack_rows(const MatmulJob& job, const MatmulPart& part, const PackedOperand& to) {
  pack({job.a.data, job.a.strides[0], is_contiguous_along(job.a, 1) ? 1 : job.a.strides[1]}, amx::TileRows::indices,
       part, to);
}

void pack_columns(const MatmulJob& job, const MatmulPart& part, const PackedOperand& to) {
  pack({job.b.data, job.b.strides[1], is_contiguous_along(job.b, 0) ? 1 : job.b.strides[0]}, amx::TileRows::steps, part,
       to);
}

// Rows and columns of c, at most a unit of each.
class SquareOfC {
 public:
  SquareOfC(const MatmulJob& job, const MatmulBlock& block, const MatmulSteps& steps, std::int64_t row,
            std::int64_t column)
      : c_(job.c.data + row * job.c.strides[0] + column),
        stride_(job.c.strides[0]),
        rows_(std::min(kUnit, block.first_row + block.rows - row)),
        columns_(std::min(kUnit, block.first_column + block.columns - column)),
        adds_(steps.first > 0 || job.into == Into::add),
        bias_(job.bias && steps.first == 0 ? job.bias + column : nullptr),
        next_(rows_ < kUnit || row + kUnit == block.first_row + block.rows
                  ? c_ + (block.first_row - row) * stride_ + kUnit
                  : c_ + kUnit * stride_) {}

  // In place, unless the square is cut by an edge or starts with the bias.
  void multiply(const std::byte* a, const std::byte* b, std::int64_t steps) const {
    if (rows_ < kUnit || columns_ < kUnit || (adds_ && bias_))
      multiply_in_buffer(a, b, steps);
    else if (adds_)
      amx::multiply_units(a, b, steps, {c_, stride_}, {c_, stride_}, {next_, stride_});
    else
      amx::multiply_units(a, b, steps, bias_ ? amx::Square<const float>{bias_, 0} : amx::zeros(), {c_, stride_},
                          {next_, stride_});
  }

 private:
  void multiply_in_buffer(const std::byte* a, const std::byte* b, std::int64_t steps) const {
    alignas(64) float buffer[kUnit * kUnit] = {};
    for (std::int64_t i = 0; i < rows_; i++)
      for (std::int64_t j = 0; j < columns_; j++)
        buffer[i * kUnit + j] = (adds_ ? c_[i * stride_ + j] : 0.0f) + (bias_ ? bias_[j] : 0.0f);
    amx::multiply_units(a, b, steps, {buffer, kUnit}, {buffer, kUnit}, {next_, stride_});
    for (std::int64_t i = 0; i < rows_; i++) std::copy_n(buffer + i * kUnit, columns_, c_ + i * stride_);
  }

  float* c_;
  std::int64_t stride_, rows_, columns_;
  bool adds_;          // to c
  const float* bias_;  // if any
  const float* next_;  // the square below, or the first of the next columns
};

void multiply_block(const MatmulJob& job, const MatmulBlock& block, const MatmulSteps& steps, const PackedOperand& a,
                    const PackedOperand& b) {
  const amx::Tiles tiles;
  for (std::int64_t j = block.first_column; j < block.first_column + block.columns; j += kUnit)
    for (std::int64_t i = block.first_row; i < block.first_row + block.rows; i += kUnit)
      SquareOfC(job, block, steps, i, j).multiply(unit_at(a, i, steps.first), unit_at(b, j, steps.first), steps.count);
}

}  // namespace

MatmulKernels amx_kernels() {
  return {.rows = kUnit,
          .columns = kUnit,
          .steps = kSteps,
          .bytes = kUnitBytes / kUnit / kSteps,
          .always_packs_rows = true,
          .packed_rows = 128,
          .pack_rows = pack_rows,
          .pack_columns = pack_columns,
          .multiply_block = multiply_block};
}

}  // namespace phasor::detail
