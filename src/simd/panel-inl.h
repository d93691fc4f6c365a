// Rows to panels and back. A panel holds kPanel rows as lanes: panel[c][lane] = row[lane][c]. Four channels of kLanes
// rows are transposed at a time, as 4 x 4 squares inside the 128-bit blocks of four vectors.
#if defined(PHASOR_SIMD_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_PANEL_INL_H_
#undef PHASOR_SIMD_PANEL_INL_H_
#else
#define PHASOR_SIMD_PANEL_INL_H_
#endif

#include "simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Panels are read and written in steps of this many channels.
constexpr size_t kSquare = 4;

HWY_INLINE size_t WholeSquares(size_t channels) { return (channels + kSquare - 1) / kSquare * kSquare; }

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void RowsToPanel(const float* HWY_RESTRICT rows, size_t stride, size_t channels, float scale,
                            float* HWY_RESTRICT panel) {
  for (size_t c = 0; c < WholeSquares(channels); c++)
    for (size_t lane = 0; lane < kPanel; lane++) panel[c * kPanel + lane] = scale * rows[lane * stride + c];
}

HWY_INLINE void PanelToRows(const float* HWY_RESTRICT panel, size_t channels, float* HWY_RESTRICT rows, size_t stride) {
  for (size_t c = 0; c < WholeSquares(channels); c++)
    for (size_t lane = 0; lane < kPanel; lane++) rows[lane * stride + c] = panel[c * kPanel + lane];
}

#else

// Block b of the result is the 4 floats at from + b * step.
template <class D>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const float* HWY_RESTRICT from, size_t step) {
  if constexpr (hn::MaxLanes(D()) == kSquare) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, LoadBlocks(half, from + hn::MaxLanes(half) / kSquare * step, step),
                       LoadBlocks(half, from, step));
  }
}

template <class D>
HWY_INLINE void StoreBlocks(hn::Vec<D> v, D d, float* HWY_RESTRICT to, size_t step) {
  if constexpr (hn::MaxLanes(D()) == kSquare) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    StoreBlocks(hn::LowerHalf(half, v), half, to, step);
    StoreBlocks(hn::UpperHalf(half, v), half, to + hn::MaxLanes(half) / kSquare * step, step);
  }
}

// Lane j of block b of vector i goes to lane i of block b of vector j.
HWY_INLINE void TransposeSquares(FloatVec& v0, FloatVec& v1, FloatVec& v2, FloatVec& v3) {
  const FloatTag d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<FloatTag> > pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
  v0 = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  v1 = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  v2 = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  v3 = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

// panel[c][lane] = scale * rows[lane][c] for WholeSquares(channels) channels and kPanel rows, all of them readable.
HWY_INLINE void RowsToPanel(const float* HWY_RESTRICT rows, size_t stride, size_t channels, float scale,
                            float* HWY_RESTRICT panel) {
  const FloatTag d;
  const FloatVec factor = hn::Set(d, scale);
  for (size_t first = 0; first < kPanel; first += kLanes)
    for (size_t c = 0; c < channels; c += kSquare) {
      const float* from = rows + first * stride + c;
      FloatVec v0 = LoadBlocks(d, from, kSquare * stride), v1 = LoadBlocks(d, from + stride, kSquare * stride);
      FloatVec v2 = LoadBlocks(d, from + 2 * stride, kSquare * stride);
      FloatVec v3 = LoadBlocks(d, from + 3 * stride, kSquare * stride);
      TransposeSquares(v0, v1, v2, v3);
      float* to = panel + c * kPanel + first;
      hn::StoreU(hn::Mul(factor, v0), d, to);
      hn::StoreU(hn::Mul(factor, v1), d, to + kPanel);
      hn::StoreU(hn::Mul(factor, v2), d, to + 2 * kPanel);
      hn::StoreU(hn::Mul(factor, v3), d, to + 3 * kPanel);
    }
}

// rows[lane][c] = panel[c][lane] for WholeSquares(channels) channels and kPanel rows.
HWY_INLINE void PanelToRows(const float* HWY_RESTRICT panel, size_t channels, float* HWY_RESTRICT rows, size_t stride) {
  const FloatTag d;
  for (size_t first = 0; first < kPanel; first += kLanes)
    for (size_t c = 0; c < channels; c += kSquare) {
      const float* from = panel + c * kPanel + first;
      FloatVec v0 = hn::LoadU(d, from), v1 = hn::LoadU(d, from + kPanel);
      FloatVec v2 = hn::LoadU(d, from + 2 * kPanel), v3 = hn::LoadU(d, from + 3 * kPanel);
      TransposeSquares(v0, v1, v2, v3);
      float* to = rows + first * stride + c;
      StoreBlocks(v0, d, to, kSquare * stride);
      StoreBlocks(v1, d, to + stride, kSquare * stride);
      StoreBlocks(v2, d, to + 2 * stride, kSquare * stride);
      StoreBlocks(v3, d, to + 3 * stride, kSquare * stride);
    }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
