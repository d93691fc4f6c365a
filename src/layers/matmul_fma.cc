// The products of matmul in the vectors of each SIMD target, on the micro-kernel of attention.
#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "matmul_fma.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "matmul_kernels.h"
#include "simd/panel-inl.h"
#include "simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Zeros past the last column, up to a whole panel.
HWY_INLINE void CopyToPanel(const float* HWY_RESTRICT from, size_t count, float* HWY_RESTRICT panel) {
  const FloatTag d;
  if (count == kPanel) {
    for (size_t v = 0; v < kVectors; v++) hn::Store(hn::LoadU(d, from + v * kLanes), d, panel + v * kLanes);
  } else {
    std::memcpy(panel, from, count * sizeof(float));
    std::fill_n(panel + count, kPanel - count, 0.0f);
  }
}

// In parts that fit in the first-level cache, because a panel is written in several passes, lane by lane.
HWY_INLINE void TransposeToPanel(const float* from, size_t stride, size_t steps, size_t count, float* panel) {
  constexpr size_t kPart = 64;
  const bool whole = count == kPanel && steps % kSquare == 0;
  for (size_t k = 0; whole && k < steps; k += kPart)
    RowsToPanel(from + k, stride, HWY_MIN(kPart, steps - k), 1.0f, panel + k * kPanel);
  for (size_t k = 0; !whole && k < steps; k++)
    for (size_t lane = 0; lane < kPanel; lane++)
      panel[k * kPanel + lane] = lane < count ? from[lane * stride + k] : 0.0f;
}

// A part of b, its columns from the first of a panel on.
void PackPanels(const detail::MatmulJob& job, const detail::MatmulPart& part, const detail::PackedOperand& to) {
  const TensorView<const float, 2>& b = job.b;
  const auto panel_size = static_cast<int64_t>(kPanel);
  const auto each_panel = [&](const auto& pack) HWY_ATTR {
    for (int64_t column = part.first; column < part.first + part.count; column += panel_size)
      pack(column, static_cast<size_t>(HWY_MIN(panel_size, b.shape[1] - column)));
  };
  if (detail::is_contiguous_along(b, 1)) {
    for (int64_t k = part.steps.first; k < part.steps.first + part.steps.count; k++)
      each_panel([&](int64_t column, size_t count) HWY_ATTR {
        CopyToPanel(b.data + k * b.strides[0] + column, count, to.at(column, k, panel_size));
      });
  } else {
    each_panel([&](int64_t column, size_t count) HWY_ATTR {
      TransposeToPanel(b.data + part.steps.first + column * b.strides[1], static_cast<size_t>(b.strides[1]),
                       static_cast<size_t>(part.steps.count), count, to.at(column, part.steps.first, panel_size));
    });
  }
}

// Up to kTileRows floats, in one move where vectors allow it.
HWY_INLINE void CopyFew(const float* HWY_RESTRICT from, size_t count, float* HWY_RESTRICT to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const hn::FixedTag<float, 8> d;
  const auto mask = hn::FirstN(d, count);
  hn::BlendedStore(hn::MaskedLoad(mask, d, from), mask, d, to);
#else
  if (count == kTileRows)
    std::memcpy(to, from, kTileRows * sizeof(float));
  else
    std::memcpy(to, from, count * sizeof(float));
#endif
}

// A part of a that is stored by columns, from the first row of a tile. A few steps at a time, so that whole cache lines
// of the tiles are written. The next lines are prefetched: they are too far apart for the hardware prefetcher.
void PackTiles(const detail::MatmulJob& job, const detail::MatmulPart& part, const detail::PackedOperand& to) {
  constexpr int64_t kFew = 8;
  const auto tile_rows = static_cast<int64_t>(kTileRows);
  const int64_t stride = job.a.strides[1], last = part.steps.first + part.steps.count;
  for (int64_t few = part.steps.first; few < last; few += kFew)
    for (int64_t i = part.first; i < part.first + part.count; i += tile_rows) {
      const float* from = job.a.data + i + few * stride;
      float* tile = to.at(i, few, tile_rows);
      const auto count = static_cast<size_t>(HWY_MIN(tile_rows, part.first + part.count - i));
      for (int64_t k = 0; k < HWY_MIN(kFew, last - few); k++) {
        __builtin_prefetch(from + (k + kFew) * stride);
        CopyFew(from + k * stride, count, tile + k * tile_rows);
      }
    }
}

// The bias of a panel's columns, zeros where there is none.
struct Bias {
  HWY_ALIGN float lanes[kPanel] = {};
};

HWY_INLINE void FetchRow(const float* c) {
  for (size_t v = 0; v < kVectors; v++) __builtin_prefetch(c + v * kLanes, 0, 2);
}

// tile += a b, while the next tile, if any, is prefetched, because it is loaded and stored at once. One row at a time:
// a core has about ten outstanding lines, and b needs some of them.
template <size_t R, class A>
HWY_INLINE void AccumulateAndFetch(Tile<R, kVectors>& tile, size_t steps, const A& a, const float* HWY_RESTRICT panel,
                                   const float* next, size_t stride) {
  const size_t part = steps / kTileRows / 2 * 2;  // even, for the loop is unrolled twice
  for (size_t r = 0; r < kTileRows; r++) {
    FetchRow(next + r * stride);
    const size_t first = r * part, count = r + 1 < kTileRows ? part : steps - first;
    Accumulate(tile, count, a.From(first), panel + first * kPanel, kPanel);
  }
}

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
  AccumulateAndFetch(tile, steps, a, panel, c + R * stride, stride);
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
HWY_INLINE void MultiplyPanel(const detail::MatmulJob& job, const detail::MatmulBlock& block, int64_t column,
                              const detail::MatmulSteps& steps, const float* HWY_RESTRICT panel,
                              const RowsFrom& rows_from) {
  const auto count =
      static_cast<size_t>(HWY_MIN(static_cast<int64_t>(kPanel), block.first_column + block.columns - column));
  const auto stride = static_cast<size_t>(job.c.strides[0]), depth = static_cast<size_t>(steps.count);
  const bool first = steps.first == 0, adds = !first || job.into == detail::Into::add;
  Bias bias;
  if (job.bias && first) std::memcpy(bias.lanes, job.bias + column, count * sizeof(float));
  float* c = job.c.data + block.first_row * job.c.strides[0] + column;
  ForEachTile<kVectors>(static_cast<size_t>(block.rows), [&]<size_t R>(size_t i) PHASOR_TILE_LAMBDA {
    if (count == kPanel)
      MultiplyTile<R>(rows_from(i), depth, panel, bias.lanes, adds, c + i * stride, stride);
    else
      MultiplyCutTile<R>(rows_from(i), depth, panel, bias.lanes, adds, c + i * stride, stride, count);
  });
}

// Adds this many steps of the depth to a block of c.
void MultiplyBlock(const detail::MatmulJob& job, const detail::MatmulBlock& block, const detail::MatmulSteps& steps,
                   const detail::PackedOperand& a, const detail::PackedOperand& b) {
  const auto a_stride = static_cast<size_t>(job.a.strides[0]), a_steps = static_cast<size_t>(a.steps.count);
  const float* in_place = job.a.data + block.first_row * job.a.strides[0] + steps.first;
  const float* tiles = a.data ? a.at(block.first_row, steps.first, kTileRows) : nullptr;
  for (int64_t j = block.first_column; j < block.first_column + block.columns; j += static_cast<int64_t>(kPanel)) {
    const float* panel = b.at(j, steps.first, kPanel);
    if (tiles)
      MultiplyPanel(job, block, j, steps, panel, [&](size_t i) HWY_ATTR {
        const size_t tile = i / kTileRows * kTileRows;
        return ByColumns(tiles + tile * a_steps + (i - tile), kTileRows);
      });
    else
      MultiplyPanel(job, block, j, steps, panel,
                    [&](size_t i) HWY_ATTR { return ByRows(in_place + i * a_stride, a_stride); });
  }
}

// Few rows of a, as in decoding, and contiguous columns of b: dot products that read b once, in place.
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

detail::MatmulKernels FmaKernels() {
  return {.rows = kTileRows,
          .columns = kPanel,
          .pack_rows = PackTiles,
          .pack_columns = PackPanels,
          .multiply_block = MultiplyBlock,
          .multiply_few_rows = MultiplyFewRows};
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(FmaKernels);

MatmulKernels fma_kernels() { return PHASOR_DISPATCH(FmaKernels)(); }

}  // namespace phasor::detail
#endif  // HWY_ONCE
