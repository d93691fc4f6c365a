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

int64_t PanelColumns() { return kPanel; }

HWY_INLINE void CopyToPanel(const float* from, size_t stride, size_t steps, size_t count, float* panel) {
  for (size_t k = 0; k < steps; k++) {
    std::memcpy(panel + k * kPanel, from + k * stride, count * sizeof(float));
    std::fill_n(panel + k * kPanel + count, kPanel - count, 0.0f);
  }
}

// In parts that stay in the first-level cache: a panel is written by lanes, in several passes.
HWY_INLINE void TransposeToPanel(const float* from, size_t stride, size_t steps, size_t count, float* panel) {
  constexpr size_t kPart = 64;
  const bool whole = count == kPanel && steps % kSquare == 0;
  for (size_t k = 0; whole && k < steps; k += kPart)
    RowsToPanel(from + k, stride, HWY_MIN(kPart, steps - k), 1.0f, panel + k * kPanel);
  for (size_t k = 0; !whole && k < steps; k++)
    for (size_t lane = 0; lane < kPanel; lane++)
      panel[k * kPanel + lane] = lane < count ? from[lane * stride + k] : 0.0f;
}

// Columns of b; zeros past the last, up to a whole panel.
void PackPanels(const detail::MatmulJob& job, int64_t first_column, int64_t columns, const detail::PackedOperand& to) {
  const TensorView<const float, 2>& b = job.b;
  const auto steps = static_cast<size_t>(to.steps.count);
  const auto panel_size = static_cast<int64_t>(kPanel);
  for (int64_t column = first_column; column < first_column + columns; column += panel_size) {
    const auto count = static_cast<size_t>(HWY_MIN(panel_size, b.shape[1] - column));
    const float* from = b.data + to.steps.first * b.strides[0] + column * b.strides[1];
    float* panel = to.at(column, to.steps.first, panel_size);
    if (detail::is_contiguous_along(b, 1))
      CopyToPanel(from, static_cast<size_t>(b.strides[0]), steps, count, panel);
    else
      TransposeToPanel(from, static_cast<size_t>(b.strides[1]), steps, count, panel);
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

// Rows of a that is stored by columns. A few steps at a time, so that lines of the tiles are written whole; those after
// them are fetched meanwhile, since they lie too far apart for the processor to guess.
void PackTiles(const detail::MatmulJob& job, int64_t first_row, int64_t rows, const detail::PackedOperand& to) {
  constexpr int64_t kFew = 8;
  const auto tile_rows = static_cast<int64_t>(kTileRows);
  const int64_t stride = job.a.strides[1];
  for (int64_t few = 0; few < to.steps.count; few += kFew)
    for (int64_t i = 0; i < rows; i += tile_rows) {
      const float* from = job.a.data + first_row + i + (to.steps.first + few) * stride;
      float* tile = to.at(first_row + i, to.steps.first + few, tile_rows);
      const int64_t count = HWY_MIN(kFew, to.steps.count - few);
      for (int64_t k = 0; k < count; k++) {
        __builtin_prefetch(from + (k + kFew) * stride);
        CopyFew(from + k * stride, static_cast<size_t>(HWY_MIN(tile_rows, rows - i)), tile + k * tile_rows);
      }
    }
}

// The bias of a panel's columns, zeros where there is none.
struct Bias {
  HWY_ALIGN float lanes[kPanel] = {};
};

// Asks for the tile that comes next, which may be none: it is loaded and stored at once.
HWY_INLINE void FetchTile(const float* c, size_t stride) {
  for (size_t r = 0; r < kTileRows; r++)
    for (size_t v = 0; v < kVectors; v++) __builtin_prefetch(c + r * stride + v * kLanes, 0, 2);
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
    FetchTile(c + (i + R) * stride, stride);
    if (count == kPanel)
      MultiplyTile<R>(rows_from(i), depth, panel, bias.lanes, adds, c + i * stride, stride);
    else
      MultiplyCutTile<R>(rows_from(i), depth, panel, bias.lanes, adds, c + i * stride, stride, count);
  });
}

// Adds so many steps of the depth to a block of c.
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

HWY_EXPORT(PanelColumns);
HWY_EXPORT(PackPanels);
HWY_EXPORT(PackTiles);
HWY_EXPORT(MultiplyBlock);
HWY_EXPORT(MultiplyFewRows);

// Blocks of c: rows in tiles, columns in whole panels of any width. A task makes one or several, as long as there are
// enough tasks for all threads; how c is cut does not change its bits, only how the depth is.
constexpr std::int64_t kBlockRows = 192, kBlockColumns = 256, kTasksOfAThread = 5;
// Few rows are cut finer, since then the time is that of reading b.
constexpr std::int64_t kFewRows = 4, kFewRowsColumns = 64;
// Products this small are not worth waking a thread.
constexpr std::int64_t kSmall = std::int64_t{1} << 17;

// Floats of b, and at least kMatmulDepth steps, that are packed at once for all tasks. Where b is a batch, stored for a
// gradient of weights, no more than these steps: it is large, and what is packed should still be in cache when used.
constexpr std::int64_t kSharedFloats = std::int64_t{1} << 20;

std::int64_t parts(std::int64_t count, std::int64_t part) { return (count + part - 1) / part; }

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

// Sums of nothing. The operands may have no memory then, not even an address to count from.
void add_bias_only(const MatmulJob& job) {
  for (std::int64_t i = 0; i < job.c.shape[0]; i++)
    for (std::int64_t j = 0; j < job.c.shape[1]; j++)
      job.c(i, j) = (job.into == Into::add ? job.c(i, j) : 0.0f) + (job.bias ? job.bias[j] : 0.0f);
}

void multiply_few_rows(const MatmulJob& job, bool small) {
  const auto [rows, columns] = job.c.shape;
  const std::int64_t width = small ? columns : kFewRowsColumns;
  const auto kernel = PHASOR_DISPATCH(MultiplyFewRows);
  parallel_for(parts(columns, width), [&, rows = rows, columns = columns](std::int64_t task) {
    kernel(job, {0, rows, task * width, std::min(width, columns - task * width)});
  });
}

// Packed operands stay in the second-level cache of the core that uses them: a task packs for itself what is costly to
// pack (a stored by columns, a transposed b) and makes all blocks that need it. Other panels of b are packed once for
// all.
class PackedProduct {
 public:
  PackedProduct(const MatmulJob& job, bool small)
      : job_(job),
        packs_a_(!is_contiguous_along(job.a, 1)),
        panel_(PHASOR_DISPATCH(PanelColumns)()),
        task_{0, small ? job.c.shape[0] : kBlockRows, 0, small ? job.c.shape[1] : kBlockColumns},
        shares_b_(parts(job.c.shape[0], task_.rows) > 1 && (packs_a_ || is_contiguous_along(job.b, 1))) {
    const auto enough = [&](std::int64_t rows, std::int64_t columns) {
      return tasks(rows, columns) >= kTasksOfAThread * num_threads();
    };
    const auto [rows, columns] = job.c.shape;
    while (packs_a_ && task_.columns < columns && enough(task_.rows, 2 * task_.columns)) task_.columns *= 2;
    while (!shares_b_ && task_.rows < rows && enough(2 * task_.rows, task_.columns)) task_.rows *= 2;
  }

  void run() const {
    if (!shares_b_) return multiply({0, job_.depth()}, {});
    const std::int64_t columns = parts(job_.c.shape[1], panel_) * panel_;
    const std::int64_t wanted = packs_a_ ? 1 : kSharedFloats / columns / kMatmulDepth;
    const std::int64_t most = std::max(wanted, std::int64_t{1}) * kMatmulDepth;
    for_each_part({0, job_.depth()}, most, [&](const MatmulSteps& steps) {
      const PackedOperand b{Arena::begin_shared().take(static_cast<std::size_t>(columns * steps.count)), 0, steps};
      const std::int64_t width = kBlockColumns;
      parallel_for(parts(columns, width), [&](std::int64_t i) {
        PHASOR_DISPATCH(PackPanels)(job_, i * width, std::min(width, job_.c.shape[1] - i * width), b);
      });
      multiply(steps, b);
    });
  }

 private:
  static constexpr std::int64_t kTile = 6;

  std::int64_t tasks(std::int64_t rows, std::int64_t columns) const {
    return parts(job_.c.shape[0], rows) * parts(job_.c.shape[1], columns);
  }

  // Calls body with at most so many steps at a time, in order.
  template <class Body>
  static void for_each_part(const MatmulSteps& steps, std::int64_t most, const Body& body) {
    for (std::int64_t done = 0; done < steps.count; done += most)
      body(MatmulSteps{steps.first + done, std::min(most, steps.count - done)});
  }

  void multiply(const MatmulSteps& steps, const PackedOperand& shared_b) const {
    const std::int64_t across = parts(job_.c.shape[1], task_.columns);
    parallel_for(tasks(task_.rows, task_.columns), [&](std::int64_t i) {
      const std::int64_t row = i / across * task_.rows, column = i % across * task_.columns;
      multiply_task(
          {row, std::min(task_.rows, job_.c.shape[0] - row), column, std::min(task_.columns, job_.c.shape[1] - column)},
          steps, shared_b);
    });
  }

  void multiply_task(const MatmulBlock& task, const MatmulSteps& steps, const PackedOperand& shared_b) const {
    Arena& arena = Arena::begin();
    const std::int64_t depth = std::min(steps.count, kMatmulDepth), rows = std::min(task.rows, kBlockRows);
    const auto take = [&](std::int64_t count, std::int64_t unit) {
      return arena.take(static_cast<std::size_t>(parts(count, unit) * unit * depth));
    };
    float* own_a = packs_a_ ? take(rows, kTile) : nullptr;
    float* own_b = shares_b_ ? nullptr : take(task.columns, panel_);
    for_each_part(steps, kMatmulDepth, [&](const MatmulSteps& part) {
      const PackedOperand b = shares_b_ ? shared_b : PackedOperand{own_b, task.first_column, part};
      if (!shares_b_) PHASOR_DISPATCH(PackPanels)(job_, task.first_column, task.columns, b);
      for (std::int64_t row = task.first_row; row < task.first_row + task.rows; row += rows) {
        const MatmulBlock block{row, std::min(rows, task.first_row + task.rows - row), task.first_column, task.columns};
        const PackedOperand a{own_a, row, part};
        if (packs_a_) PHASOR_DISPATCH(PackTiles)(job_, row, block.rows, a);
        PHASOR_DISPATCH(MultiplyBlock)(job_, block, part, a, b);
      }
    });
  }

  const MatmulJob& job_;
  bool packs_a_;
  std::int64_t panel_;
  MatmulBlock task_;  // the size of one
  bool shares_b_;
};

}  // namespace

void matmul(TensorView<const float, 2> a, TensorView<const float, 2> b, TensorView<float, 2> c, Into into,
            std::span<const float> bias) {
  const MatmulJob job{a, b, c, into, bias.empty() ? nullptr : bias.data()};
  check_operands(job);
  const std::int64_t rows = c.shape[0], columns = c.shape[1];
  if (rows == 0 || columns == 0) return;
  if (job.depth() == 0) return add_bias_only(job);
  const bool small = rows * columns * job.depth() <= kSmall;
  if (rows <= kFewRows && is_contiguous_along(b, 0) && is_contiguous_along(a, 1))
    multiply_few_rows(job, small);
  else
    PackedProduct(job, small).run();
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
