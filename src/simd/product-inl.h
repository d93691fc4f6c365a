// The one micro-kernel: a tile of R rows x N vectors, c[i] += sum over k of a(i, k) * b[k], with a broadcast from
// memory by scalars and rows of b loaded as vectors. The operands of attention all have one of two forms of a, and are
// used where they lie: nothing is packed. See docs/performance.md for the shape of the tile.
#if defined(PHASOR_SIMD_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_PRODUCT_INL_H_
#undef PHASOR_SIMD_PRODUCT_INL_H_
#else
#define PHASOR_SIMD_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
constexpr size_t kLanes = hn::MaxLanes(FloatTag());
// A panel is two vectors wide: with two of b and one of a, a tile of 6 rows fills 15 of 16 registers, one of 12 rows 27
// of 32.
constexpr size_t kPanel = 2 * kLanes;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_ARCH_ARM
constexpr size_t kTileRows = 12;
#else
constexpr size_t kTileRows = 6;
#endif

// a(i, k) = data[i * row + k]
struct ByRows {
  const float* HWY_RESTRICT data;
  size_t row;
};

// a(i, k) = data[i + k * step]
struct ByColumns {
  const float* HWY_RESTRICT data;
  size_t step;
};

template <size_t R, size_t N>
struct Tile {
  FloatVec c[R][N];
};

// Four pointers and the multiples 0, 1, 2 of the row reach twelve rows without a register for each.
template <size_t R, size_t N>
HWY_INLINE void Accumulate(Tile<R, N>& tile, size_t steps, ByRows a, const float* HWY_RESTRICT b, size_t b_step) {
  const FloatTag d;
  constexpr size_t kBases = (R + 2) / 3;
  const float* base[kBases];
#pragma GCC unroll 4
  for (size_t i = 0; i < kBases; i++) base[i] = a.data + 3 * i * a.row;
  for (size_t k = 0; k < steps; k++) {
    FloatVec bk[N];
#pragma GCC unroll 2
    for (size_t v = 0; v < N; v++) bk[v] = hn::LoadU(d, b + k * b_step + v * kLanes);
#pragma GCC unroll 12
    for (size_t i = 0; i < R; i++) {
      const FloatVec aik = hn::Set(d, base[i / 3][(i % 3) * a.row + k]);
#pragma GCC unroll 2
      for (size_t v = 0; v < N; v++) tile.c[i][v] = hn::MulAdd(aik, bk[v], tile.c[i][v]);
    }
  }
}

template <size_t R, size_t N>
HWY_INLINE void Accumulate(Tile<R, N>& tile, size_t steps, ByColumns a, const float* HWY_RESTRICT b, size_t b_step) {
  const FloatTag d;
  for (size_t k = 0; k < steps; k++) {
    FloatVec bk[N];
#pragma GCC unroll 2
    for (size_t v = 0; v < N; v++) bk[v] = hn::LoadU(d, b + k * b_step + v * kLanes);
#pragma GCC unroll 12
    for (size_t i = 0; i < R; i++) {
      const FloatVec aik = hn::Set(d, a.data[k * a.step + i]);
#pragma GCC unroll 2
      for (size_t v = 0; v < N; v++) tile.c[i][v] = hn::MulAdd(aik, bk[v], tile.c[i][v]);
    }
  }
}

// tile.c[i] = row(i, v) for all rows and vectors; write(i, v, tile.c[i][v]) for all.
template <size_t R, size_t N, class Row>
HWY_INLINE void FillTile(Tile<R, N>& tile, const Row& row) {
#pragma GCC unroll 12
  for (size_t i = 0; i < R; i++)
#pragma GCC unroll 2
    for (size_t v = 0; v < N; v++) tile.c[i][v] = row(i, v);
}

template <size_t R, size_t N>
HWY_INLINE void StoreTile(const Tile<R, N>& tile, float* HWY_RESTRICT to, size_t stride) {
  const FloatTag d;
#pragma GCC unroll 12
  for (size_t i = 0; i < R; i++)
#pragma GCC unroll 2
    for (size_t v = 0; v < N; v++) hn::StoreU(tile.c[i][v], d, to + i * stride + v * kLanes);
}

// Calls body.operator()<R>(first row) for tiles that cover `rows` rows, largest first.
template <class Body>
HWY_INLINE void ForEachTile(size_t rows, const Body& body) {
  size_t i = 0;
  for (; i + kTileRows <= rows; i += kTileRows) body.template operator()<kTileRows>(i);
  if constexpr (kTileRows > 8) {
    if (i + 8 <= rows) body.template operator()<8>(i), i += 8;
  }
  if (i + 4 <= rows) body.template operator()<4>(i), i += 4;
  if (i + 2 <= rows) body.template operator()<2>(i), i += 2;
  if (i < rows) body.template operator()<1>(i);
}

// c[i][panel] = start(i, v) + sum over k < steps of a(i, k) b[k][panel], rows of b and c a panel wide.
template <class A, class Start>
HWY_INLINE void PanelProduct(size_t rows, size_t steps, const A& rows_from, const float* HWY_RESTRICT b,
                             float* HWY_RESTRICT c, const Start& start) {
  ForEachTile(rows, [&]<size_t R>(size_t i) HWY_ATTR {
    Tile<R, 2> tile;
    FillTile(tile, [&](size_t r, size_t v) HWY_ATTR { return start(i + r, v); });
    Accumulate(tile, steps, rows_from(i), b, kPanel);
    StoreTile(tile, c + i * kPanel, kPanel);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
