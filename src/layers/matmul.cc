#include "matmul.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "matmul.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "matmul_plan.h"
#include "simd/arena.h"
#include "simd/panel-inl.h"
#include "simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Steps of the depth made at once: all panels of b, and the rows of a, stay in the second-level cache.
constexpr size_t kDepth = HWY_MIN(512, 16384 / kPanel);

// Columns of b as panels, [panel][depth][kPanel], zeros past the last column.
class PackedColumns {
 public:
  PackedColumns(const detail::MatmulJob& job, const detail::MatmulBlock& block, float* memory)
      : b_(job.b),
        by_rows_(detail::is_contiguous_along(job.b, 1)),
        first_(block.first_column),
        columns_(static_cast<size_t>(block.columns)),
        memory_(memory) {}

  void Pack(int64_t first_step, size_t steps) {
    for (size_t j = 0; j < columns_; j += kPanel) {
      const size_t count = HWY_MIN(kPanel, columns_ - j);
      const float* from = b_.data + first_step * b_.strides[0] + (first_ + static_cast<int64_t>(j)) * b_.strides[1];
      by_rows_ ? CopyRows(from, steps, count, Panel(j)) : Transpose(from, steps, count, Panel(j));
    }
  }

  float* Panel(size_t column) const { return memory_ + column * kDepth; }

 private:
  void CopyRows(const float* from, size_t steps, size_t count, float* panel) const {
    for (size_t k = 0; k < steps; k++) {
      std::memcpy(panel + k * kPanel, from + static_cast<int64_t>(k) * b_.strides[0], count * sizeof(float));
      std::fill_n(panel + k * kPanel + count, kPanel - count, 0.0f);
    }
  }

  void Transpose(const float* from, size_t steps, size_t count, float* panel) const {
    const auto stride = static_cast<size_t>(b_.strides[1]);
    if (count == kPanel && steps % kSquare == 0) return RowsToPanel(from, stride, steps, 1.0f, panel);
    for (size_t k = 0; k < steps; k++)
      for (size_t lane = 0; lane < kPanel; lane++)
        panel[k * kPanel + lane] = lane < count ? from[lane * stride + k] : 0.0f;
  }

  TensorView<const float, 2> b_;
  bool by_rows_;
  int64_t first_;
  size_t columns_;
  float* memory_;
};

// Rows of a: in place when stored by rows. Stored by columns they are copied, [tile][depth][kTileRows]: columns that
// lie a power of two apart would fall into the same few sets of the cache.
class RowsOfA {
 public:
  RowsOfA(const detail::MatmulJob& job, const detail::MatmulBlock& block, float* memory)
      : a_(job.a), first_(block.first_row), rows_(static_cast<size_t>(block.rows)), memory_(memory) {}

  static bool InPlace(const detail::MatmulJob& job) { return detail::is_contiguous_along(job.a, 1); }
  static size_t Floats(size_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows * kDepth; }

  void Pack(int64_t first_step, size_t steps) {
    const size_t whole = rows_ / kTileRows * kTileRows, rest = rows_ - whole;
    for (size_t k = 0; k < steps; k++) {
      const float* from = a_.data + first_ + (first_step + static_cast<int64_t>(k)) * a_.strides[1];
      float* to = memory_ + k * kTileRows;
      for (size_t i = 0; i < whole; i += kTileRows) std::memcpy(to + i * kDepth, from + i, kTileRows * sizeof(float));
      std::memcpy(to + whole * kDepth, from + whole, rest * sizeof(float));
    }
  }

  ByRows Rows(size_t i, int64_t first_step) const {
    return {a_.data + (first_ + static_cast<int64_t>(i)) * a_.strides[0] + first_step,
            static_cast<size_t>(a_.strides[0])};
  }
  ByColumns Packed(size_t i) const { return {memory_ + i / kTileRows * kTileRows * kDepth + i % kTileRows, kTileRows}; }

 private:
  TensorView<const float, 2> a_;
  int64_t first_;
  size_t rows_;
  float* memory_;
};

// The bias of a panel's columns, zeros where there is none.
struct Bias {
  HWY_ALIGN float lanes[kPanel] = {};
};

// R rows of c by one panel of columns.
template <size_t R, class A>
HWY_INLINE void MultiplyTile(const A& a, size_t steps, const float* HWY_RESTRICT panel, const float* HWY_RESTRICT bias,
                             bool adds, float* HWY_RESTRICT c, size_t stride) {
  const FloatTag d;
  Tile<R, kVectors> tile;
  FillTile(tile, [&](size_t r, size_t v) PHASOR_TILE_LAMBDA {
    const FloatVec start = hn::Load(d, bias + v * kLanes);
    return adds ? hn::Add(start, hn::LoadU(d, c + r * stride + v * kLanes)) : start;
  });
  Accumulate(tile, steps, a, panel, kPanel);
  StoreTile(tile, c, stride);
}

// The same where the edge of c cuts the panel: in a buffer.
template <size_t R, class A>
HWY_INLINE void MultiplyCutTile(const A& a, size_t steps, const float* HWY_RESTRICT panel,
                                const float* HWY_RESTRICT bias, bool adds, float* HWY_RESTRICT c, size_t stride,
                                size_t columns) {
  HWY_ALIGN float whole[R * kPanel];
  if (adds)
    for (size_t r = 0; r < R; r++) std::memcpy(whole + r * kPanel, c + r * stride, columns * sizeof(float));
  MultiplyTile<R>(a, steps, panel, bias, adds, whole, kPanel);
  for (size_t r = 0; r < R; r++) std::memcpy(c + r * stride, whole + r * kPanel, columns * sizeof(float));
}

// The columns of one panel for all rows of a block; rows_from(i) is a from row i on.
template <class RowsFrom>
HWY_INLINE void MultiplyPanel(const detail::MatmulJob& job, const detail::MatmulBlock& block, size_t column, bool first,
                              size_t steps, const float* HWY_RESTRICT panel, const RowsFrom& rows_from) {
  const size_t count = HWY_MIN(kPanel, static_cast<size_t>(block.columns) - column);
  const int64_t at = block.first_column + static_cast<int64_t>(column);
  const auto stride = static_cast<size_t>(job.c.strides[0]);
  const bool adds = !first || job.into == detail::Into::add;
  Bias bias;
  if (job.bias && first) std::memcpy(bias.lanes, job.bias + at, count * sizeof(float));
  float* c = job.c.data + block.first_row * job.c.strides[0] + at;
  ForEachTile(static_cast<size_t>(block.rows), [&]<size_t R>(size_t i) PHASOR_TILE_LAMBDA {
    if (count == kPanel)
      MultiplyTile<R>(rows_from(i), steps, panel, bias.lanes, adds, c + i * stride, stride);
    else
      MultiplyCutTile<R>(rows_from(i), steps, panel, bias.lanes, adds, c + i * stride, stride, count);
  });
}

void MultiplyBlock(const detail::MatmulJob& job, const detail::MatmulBlock& block) {
  detail::Arena& arena = detail::Arena::begin();
  const auto rows = static_cast<size_t>(block.rows), columns = static_cast<size_t>(block.columns);
  const bool in_place = RowsOfA::InPlace(job);
  PackedColumns b(job, block, arena.take((columns + kPanel - 1) / kPanel * kPanel * kDepth));
  RowsOfA a(job, block, in_place ? nullptr : arena.take(RowsOfA::Floats(rows)));
  const int64_t depth = job.depth();
  for (int64_t k = 0; k < depth || k == 0; k += kDepth) {
    const auto steps = static_cast<size_t>(HWY_MIN(static_cast<int64_t>(kDepth), depth - k));
    b.Pack(k, steps);
    if (!in_place) a.Pack(k, steps);
    for (size_t j = 0; j < columns; j += kPanel) {
      if (in_place)
        MultiplyPanel(job, block, j, k == 0, steps, b.Panel(j), [&](size_t i) HWY_ATTR { return a.Rows(i, k); });
      else
        MultiplyPanel(job, block, j, k == 0, steps, b.Panel(j), [&](size_t i) HWY_ATTR { return a.Packed(i); });
    }
  }
}

// Few rows of a, as in decoding, and columns of b contiguous: dot products that read b once, where it lies.
template <size_t M, size_t N>
HWY_INLINE void DotTile(const float* HWY_RESTRICT a, size_t a_stride, const float* HWY_RESTRICT b, size_t b_stride,
                        size_t depth, float* HWY_RESTRICT sums) {
  const FloatTag d;
  FloatVec s[M][N];
  for (size_t m = 0; m < M; m++)
    for (size_t n = 0; n < N; n++) s[m][n] = hn::Zero(d);
  size_t k = 0;
  for (; k + kLanes <= depth; k += kLanes)
    for (size_t n = 0; n < N; n++) {
      const FloatVec bn = hn::LoadU(d, b + n * b_stride + k);
      for (size_t m = 0; m < M; m++) s[m][n] = hn::MulAdd(hn::LoadU(d, a + m * a_stride + k), bn, s[m][n]);
    }
  for (size_t m = 0; m < M; m++)
    for (size_t n = 0; n < N; n++) {
      float sum = hn::GetLane(hn::SumOfLanes(d, s[m][n]));
      for (size_t t = k; t < depth; t++) sum += a[m * a_stride + t] * b[n * b_stride + t];
      sums[m * N + n] = sum;
    }
}

template <size_t M, size_t N>
HWY_INLINE void MultiplyDotTile(const detail::MatmulJob& job, int64_t row, int64_t column) {
  float sums[M * N];
  DotTile<M, N>(job.a.data + row * job.a.strides[0], static_cast<size_t>(job.a.strides[0]),
                job.b.data + column * job.b.strides[1], static_cast<size_t>(job.b.strides[1]),
                static_cast<size_t>(job.depth()), sums);
  for (size_t m = 0; m < M; m++)
    for (size_t n = 0; n < N; n++) {
      float& c = job.c(row + static_cast<int64_t>(m), column + static_cast<int64_t>(n));
      const float before = job.into == detail::Into::add ? c : 0.0f;
      c = before + (job.bias ? job.bias[column + static_cast<int64_t>(n)] : 0.0f) + sums[m * N + n];
    }
}

void MultiplyFewRows(const detail::MatmulJob& job, const detail::MatmulBlock& block) {
  constexpr size_t kColumns = 4;
  const auto columns = static_cast<size_t>(block.columns);
  const auto each = [&]<size_t M>(int64_t row) HWY_ATTR {
    size_t j = 0;
    for (; j + kColumns <= columns; j += kColumns)
      MultiplyDotTile<M, kColumns>(job, row, block.first_column + static_cast<int64_t>(j));
    for (; j < columns; j++) MultiplyDotTile<M, 1>(job, row, block.first_column + static_cast<int64_t>(j));
  };
  int64_t row = block.first_row;
  const int64_t end = block.first_row + block.rows;
  for (; row + 4 <= end; row += 4) each.template operator()<4>(row);
  for (; row + 2 <= end; row += 2) each.template operator()<2>(row);
  for (; row < end; row++) each.template operator()<1>(row);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "phasor/core/parallel.h"
#include "simd/dispatch.h"

namespace phasor::detail {
namespace {

HWY_EXPORT(MultiplyBlock);
HWY_EXPORT(MultiplyFewRows);

// Blocks of c, one a task. Rows in tiles of 6; columns in whole panels of any width; few rows are cut finer, since then
// the time is that of reading b.
constexpr std::int64_t kBlockRows = 192, kBlockColumns = 256, kFewRows = 4, kFewRowsColumns = 64;
// Products this small are not worth waking a thread.
constexpr std::int64_t kSmall = std::int64_t{1} << 17;

void check_operands(const MatmulJob& job) {
  const TensorView<const float, 2>&a = job.a, &b = job.b;
  PHASOR_CHECK(a.shape[1] == b.shape[0] && job.c.shape == Shape<2>({a.shape[0], b.shape[1]}), "matmul",
               "shapes: ", shape_text(a.shape), " by ", shape_text(b.shape), " into ", shape_text(job.c.shape),
               ", expected [M, K] by [K, N] into [M, N]");
  const auto stored = [](const TensorView<const float, 2>& x) {
    return is_contiguous_along(x, 0) || is_contiguous_along(x, 1);
  };
  PHASOR_CHECK(stored(a) && stored(b) && job.c.has_contiguous_rows(), "matmul",
               "strides: none is 1, expected contiguous rows or columns, and contiguous rows of the result");
}

}  // namespace

void matmul(TensorView<const float, 2> a, TensorView<const float, 2> b, TensorView<float, 2> c, Into into,
            std::span<const float> bias) {
  const MatmulJob job{a, b, c, into, bias.empty() ? nullptr : bias.data()};
  check_operands(job);
  const std::int64_t rows = c.shape[0], columns = c.shape[1];
  const bool few = rows <= kFewRows && is_contiguous_along(b, 0) && is_contiguous_along(a, 1);
  const bool small = rows * columns * job.depth() <= kSmall;
  const std::int64_t block_rows = small ? rows : kBlockRows;
  const std::int64_t block_columns = small ? columns : few ? kFewRowsColumns : kBlockColumns;
  if (rows == 0 || columns == 0) return;
  const std::int64_t down = (rows + block_rows - 1) / block_rows,
                     across = (columns + block_columns - 1) / block_columns;
  const auto kernel = few ? PHASOR_DISPATCH(MultiplyFewRows) : PHASOR_DISPATCH(MultiplyBlock);
  parallel_for(down * across, [&](std::int64_t task) {
    const std::int64_t row = task / across * block_rows, column = task % across * block_columns;
    kernel(job, {row, std::min(block_rows, rows - row), column, std::min(block_columns, columns - column)});
  });
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
