// Rows to panels and back. A panel holds kPanel rows as lanes: panel[c][lane] = row[lane][c]. Four channels of kLanes
// rows are transposed at a time, as 4 x 4 squares inside the 128-bit blocks of four vectors.
#if defined(PHASOR_PRODUCTS_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_PRODUCTS_PANEL_INL_H_
#undef PHASOR_PRODUCTS_PANEL_INL_H_
#else
#define PHASOR_PRODUCTS_PANEL_INL_H_
#endif

#include "micro_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Panels are read and written in steps of this many channels.
constexpr size_t kSquare = 4;

HWY_INLINE size_t WholeSquares(size_t channels) { return (channels + kSquare - 1) / kSquare * kSquare; }

#if HWY_TARGET == HWY_SCALAR

// to[j][i] = from[i][j] for kLanes rows and `columns` columns, a multiple of kSquare.
HWY_INLINE void TransposeWords(const uint32_t* HWY_RESTRICT from, size_t /*from_stride*/, size_t columns,
                               uint32_t* HWY_RESTRICT to, size_t to_stride) {
  for (size_t j = 0; j < columns; j++) to[j * to_stride] = from[j];
}

HWY_INLINE void RowsToPanel(const float* HWY_RESTRICT rows, size_t stride, size_t channels, float scale,
                            float* HWY_RESTRICT panel) {
  for (size_t c = 0; c < WholeSquares(channels); c++)
    for (size_t lane = 0; lane < kPanel; lane++) panel[c * kPanel + lane] = scale * rows[lane * stride + c];
}

HWY_INLINE void PanelToRows(const float* HWY_RESTRICT panel, size_t channels, const float* HWY_RESTRICT scale,
                            float* HWY_RESTRICT rows, size_t stride) {
  for (size_t c = 0; c < WholeSquares(channels); c++)
    for (size_t lane = 0; lane < kPanel; lane++) rows[lane * stride + c] = scale[lane] * panel[c * kPanel + lane];
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

// Lane j of block b of vector i goes to lane i of block b of vector j.
template <class D, class V = hn::Vec<D> >
HWY_INLINE void TransposeSquares(D d, V& v0, V& v1, V& v2, V& v3) {
  const hn::RepartitionToWide<hn::RebindToUnsigned<D> > pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
  v0 = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  v1 = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  v2 = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  v3 = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

template <class V>
HWY_INLINE auto TimesFactor(V factor) {
  return [factor](V v) HWY_ATTR { return hn::Mul(factor, v); };
}

// to[j][i] = scale(d, j)(from[i][j]) for as many i as a vector has lanes, and j < columns, a multiple of kSquare.
// Vectors are stored whole, so a line that is not in the cache is requested once.
template <class D, class Scale>
HWY_INLINE void TransposeRows(D d, const float* HWY_RESTRICT from, size_t from_stride, size_t columns,
                              const Scale& scale, float* HWY_RESTRICT to, size_t to_stride) {
  for (size_t j = 0; j < columns; j += kSquare) {
    const size_t step = kSquare * from_stride;
    auto v0 = LoadBlocks(d, from + j, step), v1 = LoadBlocks(d, from + from_stride + j, step);
    auto v2 = LoadBlocks(d, from + 2 * from_stride + j, step), v3 = LoadBlocks(d, from + 3 * from_stride + j, step);
    const auto scaled = scale(d, j);
    v0 = scaled(v0), v1 = scaled(v1), v2 = scaled(v2), v3 = scaled(v3);
    TransposeSquares(d, v0, v1, v2, v3);
    hn::StoreU(v0, d, to + j * to_stride);
    hn::StoreU(v1, d, to + (j + 1) * to_stride);
    hn::StoreU(v2, d, to + (j + 2) * to_stride);
    hn::StoreU(v3, d, to + (j + 3) * to_stride);
  }
}

// to[j][i] = from[i][j] for kLanes rows and `columns` columns, a multiple of kSquare. Bits are moved, not computed
// with.
HWY_INLINE void TransposeWords(const uint32_t* HWY_RESTRICT from, size_t from_stride, size_t columns,
                               uint32_t* HWY_RESTRICT to, size_t to_stride) {
  TransposeRows(
      FloatTag(), reinterpret_cast<const float*>(from), from_stride, columns,
      [](auto, size_t) HWY_ATTR { return [](auto v) HWY_ATTR { return v; }; }, reinterpret_cast<float*>(to), to_stride);
}

// panel[c][lane] = scale * rows[lane][c] for WholeSquares(channels) channels and kPanel rows, all of them readable.
HWY_INLINE void RowsToPanel(const float* HWY_RESTRICT rows, size_t stride, size_t channels, float scale,
                            float* HWY_RESTRICT panel) {
  for (size_t lane = 0; lane < kPanel; lane += kLanes)
    TransposeRows(
        FloatTag(), rows + lane * stride, stride, channels,
        [&](auto d, size_t) HWY_ATTR { return TimesFactor(hn::Set(d, scale)); }, panel + lane, kPanel);
}

// Channels as many as vectors of D take at a time, the rest with vectors of half the size.
template <class D>
HWY_INLINE void PanelToRowsBy(D d, const float* HWY_RESTRICT panel, size_t channels, const float* HWY_RESTRICT scale,
                              float* HWY_RESTRICT rows, size_t stride) {
  constexpr size_t kStep = hn::MaxLanes(D());
  const auto lane_scale = [&](auto tag, size_t lane)
                              HWY_ATTR { return TimesFactor(hn::LoadDup128(tag, scale + lane)); };
  size_t c = 0;
  for (; c + kStep <= WholeSquares(channels); c += kStep)
    TransposeRows(d, panel + c * kPanel, kPanel, kPanel, lane_scale, rows + c, stride);
  if constexpr (kStep > kSquare) {
    if (c < channels) PanelToRowsBy(hn::Half<D>(), panel + c * kPanel, channels - c, scale, rows + c, stride);
  }
}

// rows[lane][c] = scale[lane] * panel[c][lane] for WholeSquares(channels) channels and kPanel rows.
HWY_INLINE void PanelToRows(const float* HWY_RESTRICT panel, size_t channels, const float* HWY_RESTRICT scale,
                            float* HWY_RESTRICT rows, size_t stride) {
  PanelToRowsBy(FloatTag(), panel, channels, scale, rows, stride);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
