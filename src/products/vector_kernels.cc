// The kernels of a product of floats in the vectors of each SIMD target, on the micro-kernel. b is packed into panels,
// and widened if it is of 16 bits. a is read in place if it is stored by rows, else packed into tiles.
#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector_kernels.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels.h"
#include "micro_kernel-inl.h"
#include "panel-inl.h"
#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One row of a panel, with zeros past the last column.
template <class T>
HWY_INLINE void CopyToPanel(const T* HWY_RESTRICT from, size_t count, float* HWY_RESTRICT panel) {
  const FloatTag d;
  if (count == kPanel) {
    for (size_t v = 0; v < kVectors; v++) hn::Store(LoadFloat(d, from + v * kLanes), d, panel + v * kLanes);
  } else {
    for (size_t lane = 0; lane < kPanel; lane++) panel[lane] = lane < count ? static_cast<float>(from[lane]) : 0.0f;
  }
}

// RowsToPanel writes a panel in several passes, a few lanes in each, so it is given parts that fit in the first-level
// cache.
constexpr size_t kPart = 64;

HWY_INLINE void WholePartToPanel(const float* from, size_t stride, size_t depth, float* panel) {
  RowsToPanel(from, stride, depth, 1.0f, panel);
}

template <class T>
HWY_INLINE void WholePartToPanel(const T* from, size_t stride, size_t depth, float* panel) {
  HWY_ALIGN float wide[kPanel * kPart];
  for (size_t lane = 0; lane < kPanel; lane++)
    ForEachVector(depth, [&](auto d, size_t k) HWY_ATTR {
      hn::StoreU(LoadFloat(d, from + lane * stride + k), d, wide + lane * kPart + k);
    });
  RowsToPanel(wide, kPart, depth, 1.0f, panel);
}

// A panel from columns that are contiguous.
template <class T>
HWY_INLINE void TransposeToPanel(const T* from, size_t stride, size_t depth, size_t count, float* panel) {
  const bool whole = count == kPanel && depth % kSquare == 0;
  for (size_t k = 0; whole && k < depth; k += kPart)
    WholePartToPanel(from + k, stride, HWY_MIN(kPart, depth - k), panel + k * kPanel);
  for (size_t k = 0; !whole && k < depth; k++)
    for (size_t lane = 0; lane < kPanel; lane++)
      panel[k * kPanel + lane] = lane < count ? static_cast<float>(from[lane * stride + k]) : 0.0f;
}

// The packed unit that begins with this row or column, from index k of the depth on.
HWY_INLINE float* PackedUnit(const products::PackedOperand& packed, int64_t index, int64_t k, size_t unit) {
  return reinterpret_cast<float*>(packed.data) + (index - packed.first) * packed.depth.count +
         (k - packed.depth.first) * static_cast<int64_t>(unit);
}

template <class T>
HWY_INLINE void PackPanelsOf(const TensorView<const T, 2>& b, bool by_rows, const products::Range& columns,
                             const products::Range& depth, const products::PackedOperand& to) {
  const auto each_panel = [&](const auto& pack) HWY_ATTR {
    for (int64_t column = columns.first; column < columns.end(); column += kPanel)
      pack(column, HWY_MIN(kPanel, static_cast<size_t>(columns.end() - column)));
  };
  if (by_rows) {
    for (int64_t k = depth.first; k < depth.end(); k++)
      each_panel([&](int64_t column, size_t count) HWY_ATTR {
        CopyToPanel(b.data + k * b.strides[0] + column, count, PackedUnit(to, column, k, kPanel));
      });
  } else {
    each_panel([&](int64_t column, size_t count) HWY_ATTR {
      TransposeToPanel(b.data + depth.first + column * b.strides[1], static_cast<size_t>(b.strides[1]),
                       static_cast<size_t>(depth.count), count, PackedUnit(to, column, depth.first, kPanel));
    });
  }
}

void PackPanels(const products::Operand& b, const products::Range& columns, const products::Range& depth,
                const products::PackedOperand& to) {
  const bool by_rows = products::is_contiguous_along(b, 1);
  b.visit([&](const auto& view) HWY_ATTR { PackPanelsOf(view, by_rows, columns, depth, to); });
}

// Up to kTileRows floats, in one move where the target has masked loads.
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

// a is stored by columns. The loop takes a few columns at a time, so that whole cache lines of the tiles are written.
// It prefetches the next columns, which are too far apart for the hardware prefetcher.
void PackTiles(const products::Operand& a, const products::Range& rows, const products::Range& depth,
               const products::PackedOperand& to) {
  constexpr int64_t kFew = 8;
  const int64_t stride = a.strides[1];
  for (int64_t few = depth.first; few < depth.end(); few += kFew)
    for (int64_t i = rows.first; i < rows.end(); i += kTileRows) {
      const float* from = a.view<float>().data + i + few * stride;
      float* tile = PackedUnit(to, i, few, kTileRows);
      const size_t count = HWY_MIN(kTileRows, static_cast<size_t>(rows.end() - i));
      for (int64_t k = 0; k < HWY_MIN(kFew, depth.end() - few); k++) {
        __builtin_prefetch(from + (k + kFew) * stride);
        CopyFew(from + k * stride, count, tile + k * static_cast<int64_t>(kTileRows));
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

// tile += a b. Meanwhile the next tile of c is prefetched, row by row over the depth: a core has about ten outstanding
// cache lines, and b needs some of them.
template <size_t R, class A>
HWY_INLINE void AccumulateAndFetch(Tile<R, kVectors>& tile, size_t depth, const A& a, const float* HWY_RESTRICT panel,
                                   const float* next, size_t stride) {
  const size_t part = depth / kTileRows / 2 * 2;  // even, because Accumulate is unrolled twice
  for (size_t r = 0; r < kTileRows; r++) {
    FetchRow(next + r * stride);
    const size_t first = r * part, count = r + 1 < kTileRows ? part : depth - first;
    Accumulate(tile, count, a.From(first), panel + first * kPanel, kPanel);
  }
}

// R rows of c by one panel of columns.
template <size_t R, class A>
HWY_INLINE void MultiplyTile(const A& a, size_t depth, const float* HWY_RESTRICT panel, const float* HWY_RESTRICT bias,
                             bool adds, float* HWY_RESTRICT c, size_t stride) {
  const FloatTag d;
  Tile<R, kVectors> tile;
  FillTile(tile, [&](size_t r, size_t v) PHASOR_TILE_LAMBDA {
    const FloatVec start = hn::Load(d, bias + v * kLanes);
    return adds ? hn::Add(start, hn::LoadU(d, c + r * stride + v * kLanes)) : start;
  });
  AccumulateAndFetch(tile, depth, a, panel, c + R * stride, stride);
  StoreTile(tile, c, stride);
}

// The same for the last columns of c, fewer than a panel: in a buffer.
template <size_t R, class A>
HWY_INLINE void MultiplyCutTile(const A& a, size_t depth, const float* HWY_RESTRICT panel,
                                const float* HWY_RESTRICT bias, bool adds, float* HWY_RESTRICT c, size_t stride,
                                size_t columns) {
  HWY_ALIGN float whole[R * kPanel];
  if (adds)
    for (size_t r = 0; r < R; r++) std::memcpy(whole + r * kPanel, c + r * stride, columns * sizeof(float));
  MultiplyTile<R>(a, depth, panel, bias, adds, whole, kPanel);
  for (size_t r = 0; r < R; r++) std::memcpy(c + r * stride, whole + r * kPanel, columns * sizeof(float));
}

// The columns of one panel for all rows of a block; rows_from(i) is a from row i on.
template <class RowsFrom>
HWY_INLINE void MultiplyPanel(const products::Product& product, const products::Block& block, int64_t column,
                              const products::Range& depth, const float* HWY_RESTRICT panel,
                              const RowsFrom& rows_from) {
  const size_t count = HWY_MIN(kPanel, static_cast<size_t>(block.columns.end() - column));
  const auto stride = static_cast<size_t>(product.c.strides[0]), steps = static_cast<size_t>(depth.count);
  const bool first = depth.first == 0, adds = !first || product.accumulate;
  Bias bias;
  if (!product.bias.empty() && first) std::memcpy(bias.lanes, product.bias.data() + column, count * sizeof(float));
  float* c = product.c.data + block.rows.first * product.c.strides[0] + column;
  ForEachTile<kVectors>(static_cast<size_t>(block.rows.count), [&]<size_t R>(size_t i) PHASOR_TILE_LAMBDA {
    if (count == kPanel)
      MultiplyTile<R>(rows_from(i), steps, panel, bias.lanes, adds, c + i * stride, stride);
    else
      MultiplyCutTile<R>(rows_from(i), steps, panel, bias.lanes, adds, c + i * stride, stride, count);
  });
}

void MultiplyBlock(const products::Product& product, const products::Block& block, const products::Range& depth,
                   const products::PackedOperand& a, const products::PackedOperand& b) {
  const auto a_stride = static_cast<size_t>(product.a.strides[0]), a_depth = static_cast<size_t>(a.depth.count);
  const float* in_place = product.a.view<float>().data + block.rows.first * product.a.strides[0] + depth.first;
  const float* tiles = a.data ? PackedUnit(a, block.rows.first, depth.first, kTileRows) : nullptr;
  for (int64_t j = block.columns.first; j < block.columns.end(); j += kPanel) {
    const float* panel = PackedUnit(b, j, depth.first, kPanel);
    if (tiles)
      MultiplyPanel(product, block, j, depth, panel, [&](size_t i) HWY_ATTR {
        const size_t tile = i / kTileRows * kTileRows;
        return ByColumns(tiles + tile * a_depth + (i - tile), kTileRows);
      });
    else
      MultiplyPanel(product, block, j, depth, panel,
                    [&](size_t i) HWY_ATTR { return ByRows(in_place + i * a_stride, a_stride); });
  }
}

products::Kernels VectorKernels() {
  return {.row_unit = kTileRows,
          .column_unit = kPanel,
          .packed_rows = 96,  // 192 KiB in a slice; twice as many were 1 to 5 % slower
          .pack_a = PackTiles,
          .pack_b = PackPanels,
          .multiply_block = MultiplyBlock};
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(VectorKernels);

products::Kernels products::kernels_for(const Product& product) {
  if (multiplies_pairs(product)) return pair_kernels();
  const Kernels best = PHASOR_DISPATCH_WITH_AMX(VectorKernels, amx_kernels)();
  const std::int64_t smallest = std::min({product.rows(), product.columns(), product.depth()});
  return smallest >= best.smallest_dimension ? best : PHASOR_DISPATCH(VectorKernels)();
}

}  // namespace phasor
#endif  // HWY_ONCE
