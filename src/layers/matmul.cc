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

// Steps of the depth made at once: the panels of b and the rows of a of a block stay in the second-level cache.
constexpr size_t kDepth = HWY_MIN(512, 16384 / kPanel);

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

// Columns of b from the given one on, as a panel; zeros past the last.
void PackPanel(const detail::MatmulJob& job, const detail::MatmulPass& pass, int64_t column) {
  const TensorView<const float, 2>& b = job.b;
  const auto steps = static_cast<size_t>(pass.steps);
  const auto count = static_cast<size_t>(HWY_MIN(static_cast<int64_t>(kPanel), b.shape[1] - column));
  const float* from = b.data + pass.first_step * b.strides[0] + column * b.strides[1];
  float* panel = pass.b + (column - pass.first_column) * pass.steps;
  if (detail::is_contiguous_along(b, 1))
    CopyToPanel(from, static_cast<size_t>(b.strides[0]), steps, count, panel);
  else
    TransposeToPanel(from, static_cast<size_t>(b.strides[1]), steps, count, panel);
}

// Rows of a that is stored by columns, in tiles.
void PackTiles(const detail::MatmulJob& job, const detail::MatmulPass& pass, int64_t first_row, int64_t rows) {
  const auto steps = static_cast<size_t>(pass.steps), whole = static_cast<size_t>(rows) / kTileRows * kTileRows;
  const size_t rest = static_cast<size_t>(rows) - whole;
  for (size_t k = 0; k < steps; k++) {
    const float* from = job.a.data + first_row + (pass.first_step + static_cast<int64_t>(k)) * job.a.strides[1];
    float* to = pass.a + (first_row - pass.first_row) * pass.steps + k * kTileRows;
    for (size_t i = 0; i < whole; i += kTileRows) std::memcpy(to + i * steps, from + i, kTileRows * sizeof(float));
    std::memcpy(to + whole * steps, from + whole, rest * sizeof(float));
  }
}

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

void MultiplyBlock(const detail::MatmulJob& job, const detail::MatmulPass& pass, const detail::MatmulBlock& block) {
  const auto columns = static_cast<size_t>(block.columns);
  const auto a_stride = static_cast<size_t>(job.a.strides[0]);
  for (int64_t k = 0; k < pass.steps || k == 0; k += kDepth) {
    const auto steps = static_cast<size_t>(HWY_MIN(static_cast<int64_t>(kDepth), pass.steps - k));
    const bool first = pass.first_step + k == 0;
    const float* in_place = job.a.data + block.first_row * job.a.strides[0] + pass.first_step + k;
    const float* tiles = pass.a + (block.first_row - pass.first_row) * pass.steps + k * static_cast<int64_t>(kTileRows);
    for (size_t j = 0; j < columns; j += kPanel) {
      const int64_t column = block.first_column + static_cast<int64_t>(j);
      const float* panel = pass.b + (column - pass.first_column) * pass.steps + k * static_cast<int64_t>(kPanel);
      if (pass.a == nullptr)
        MultiplyPanel(job, block, j, first, steps, panel,
                      [&](size_t i) HWY_ATTR { return ByRows(in_place + i * a_stride, a_stride); });
      else
        MultiplyPanel(job, block, j, first, steps, panel, [&](size_t i) HWY_ATTR {
          const size_t tile = i / kTileRows * kTileRows;
          return ByColumns(tiles + tile * static_cast<size_t>(pass.steps) + (i - tile), kTileRows);
        });
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

HWY_EXPORT(PanelColumns);
HWY_EXPORT(PackPanel);
HWY_EXPORT(PackTiles);
HWY_EXPORT(MultiplyBlock);
HWY_EXPORT(MultiplyFewRows);

// Blocks of c, one a task. Rows in tiles; columns in whole panels of any width.
constexpr std::int64_t kBlockRows = 192, kBlockColumns = 256;
// Few rows are cut finer, since then the time is that of reading b.
constexpr std::int64_t kFewRows = 4, kFewRowsColumns = 64;
// Products this small are not worth waking a thread.
constexpr std::int64_t kSmall = std::int64_t{1} << 17;
// Floats of a and b that are packed at once, and the least steps of the depth to pack.
constexpr std::int64_t kPackedFloats = std::int64_t{1} << 22, kLeastSteps = 256;

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

void multiply_few_rows(const MatmulJob& job, bool small) {
  const auto [rows, columns] = job.c.shape;
  const std::int64_t width = small ? columns : kFewRowsColumns;
  const auto kernel = PHASOR_DISPATCH(MultiplyFewRows);
  parallel_for(parts(columns, width), [&, rows = rows, columns = columns](std::int64_t task) {
    kernel(job, {0, rows, task * width, std::min(width, columns - task * width)});
  });
}

// Blocks of c and their packed operands.
class PackedProduct {
 public:
  PackedProduct(const MatmulJob& job, bool small)
      : job_(job),
        packs_a_(!is_contiguous_along(job.a, 1)),
        panel_(PHASOR_DISPATCH(PanelColumns)()),
        block_rows_(small ? job.c.shape[0] : kBlockRows),
        block_columns_(small ? job.c.shape[1] : kBlockColumns) {}

  // Panels that only one block needs are packed by that block, which then has them in its cache. So are transposed
  // panels when a is read in place: measured, 4 % faster than to share them. All others are shared.
  void run() const {
    const bool one_block_down = parts(job_.c.shape[0], block_rows_) == 1;
    const bool transposes_alone = !packs_a_ && !is_contiguous_along(job_.b, 1);
    one_block_down || transposes_alone ? pack_in_blocks() : pack_for_all();
  }

 private:
  static constexpr std::int64_t kTile = 6;

  void pack_in_blocks() const {
    const std::int64_t down = parts(job_.c.shape[0], block_rows_), across = parts(job_.c.shape[1], block_columns_);
    parallel_for(down * across, [&](std::int64_t task) {
      const MatmulBlock own = block(task / across, task % across);
      for_each_pass(own, kLeastSteps, [&](const MatmulPass& pass) {
        pack_panels(pass, own);
        if (packs_a_) PHASOR_DISPATCH(PackTiles)(job_, pass, own.first_row, own.rows);
        PHASOR_DISPATCH(MultiplyBlock)(job_, pass, own);
      });
    });
  }

  // Operands are packed once, then multiplied.
  void pack_for_all() const {
    const std::int64_t down = parts(job_.c.shape[0], block_rows_), across = parts(job_.c.shape[1], block_columns_);
    const std::int64_t steps = kPackedFloats / (job_.c.shape[0] + job_.c.shape[1]) / kLeastSteps * kLeastSteps;
    for_each_pass({0, job_.c.shape[0], 0, job_.c.shape[1]}, std::max(steps, kLeastSteps), [&](const MatmulPass& pass) {
      parallel_for(across + (packs_a_ ? down : 0), [&](std::int64_t task) {
        if (task < across) return pack_panels(pass, block(0, task));
        const MatmulBlock rows = block(task - across, 0);
        PHASOR_DISPATCH(PackTiles)(job_, pass, rows.first_row, rows.rows);
      });
      parallel_for(down * across, [&](std::int64_t task) {
        PHASOR_DISPATCH(MultiplyBlock)(job_, pass, block(task / across, task % across));
      });
    });
  }

  // Memory for the operands of `all`, then calls body with so many steps of the depth at a time; once if there are
  // none.
  template <class Body>
  void for_each_pass(const MatmulBlock& all, std::int64_t most_steps, const Body& body) const {
    const std::int64_t depth = job_.depth(), steps = std::min(depth, most_steps);
    Arena& arena = Arena::begin();
    const auto take = [&](std::int64_t count, std::int64_t unit) {
      return arena.take(static_cast<std::size_t>(parts(count, unit) * unit * steps));
    };
    MatmulPass pass{.a = packs_a_ ? take(all.rows, kTile) : nullptr,
                    .b = take(all.columns, panel_),
                    .first_row = all.first_row,
                    .first_column = all.first_column};
    do {
      pass.steps = std::min(steps, depth - pass.first_step);
      body(pass);
      pass.first_step += steps;
    } while (pass.first_step < depth);
  }

  void pack_panels(const MatmulPass& pass, const MatmulBlock& of) const {
    for (std::int64_t j = of.first_column; j < of.first_column + of.columns; j += panel_)
      PHASOR_DISPATCH(PackPanel)(job_, pass, j);
  }

  MatmulBlock block(std::int64_t down, std::int64_t across) const {
    const std::int64_t row = down * block_rows_, column = across * block_columns_;
    return {row, std::min(block_rows_, job_.c.shape[0] - row), column,
            std::min(block_columns_, job_.c.shape[1] - column)};
  }

  const MatmulJob& job_;
  bool packs_a_;
  std::int64_t panel_, block_rows_, block_columns_;
};

}  // namespace

void matmul(TensorView<const float, 2> a, TensorView<const float, 2> b, TensorView<float, 2> c, Into into,
            std::span<const float> bias) {
  const MatmulJob job{a, b, c, into, bias.empty() ? nullptr : bias.data()};
  check_operands(job);
  const std::int64_t rows = c.shape[0], columns = c.shape[1];
  if (rows == 0 || columns == 0) return;
  const bool small = rows * columns * job.depth() <= kSmall;
  if (rows <= kFewRows && is_contiguous_along(b, 0) && is_contiguous_along(a, 1))
    multiply_few_rows(job, small);
  else
    PackedProduct(job, small).run();
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
