// The micro-kernel of all float products, in attention and in layers: a tile of R rows x N vectors,
// c[i] += sum over k of a(i, k) * b[k]. Elements of a are broadcast from memory, rows of b are loaded as vectors. The
// form of a says how it is stored (ByRows, ByColumns); b is a panel, see panel-inl.h. See docs/performance.md for the
// shape of the tile.
#if defined(PHASOR_PRODUCTS_MICRO_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_PRODUCTS_MICRO_KERNEL_INL_H_
#undef PHASOR_PRODUCTS_MICRO_KERNEL_INL_H_
#else
#define PHASOR_PRODUCTS_MICRO_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

// For lambdas that keep a tile in registers: as a separate function, each call would reload its captures.
#undef PHASOR_TILE_LAMBDA
#define PHASOR_TILE_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
constexpr size_t kLanes = hn::MaxLanes(FloatTag());
// A tile has 6 rows, and as many vectors as registers allow with one for a: 12 sums and 2 of b in 16 registers, 24 and
// 4 in 32. Wide tiles load less for each product. A panel, the lanes of one block of b and c, is as wide as a tile.
constexpr size_t kTileRows = 6;
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM  // AVX-512 and newer, or Arm
constexpr size_t kVectors = 4;
#else
constexpr size_t kVectors = 2;
#endif
constexpr size_t kPanel = kVectors * kLanes;

// a(i, k) = data[i * row + k]. A pointer for three rows, and the multiples 0, 1, 2 of the row, reach all rows without a
// register for each.
class ByRows {
 public:
  HWY_INLINE ByRows(const float* data, size_t row)
      : bases_{data, data + 3 * row, data + 6 * row, data + 9 * row}, row_(row) {}
  HWY_INLINE float operator()(size_t i, size_t k) const { return bases_[i / 3][(i % 3) * row_ + k]; }
  HWY_INLINE ByRows From(size_t k) const { return ByRows(bases_[0] + k, row_); }

 private:
  const float* HWY_RESTRICT bases_[4];
  size_t row_;
};

// a(i, k) = data[i + k * step]
class ByColumns {
 public:
  HWY_INLINE ByColumns(const float* data, size_t step) : data_(data), step_(step) {}
  HWY_INLINE float operator()(size_t i, size_t k) const { return data_[k * step_ + i]; }
  HWY_INLINE ByColumns From(size_t k) const { return ByColumns(data_ + k * step_, step_); }

 private:
  const float* HWY_RESTRICT data_;
  size_t step_;
};

template <size_t R, size_t N>
struct Tile {
  FloatVec c[R][N];
};

// tile.c[i] += sum over k < depth of a(i, k) b[k]. A: ByRows or ByColumns.
template <size_t R, size_t N, class A>
HWY_INLINE void Accumulate(Tile<R, N>& tile, size_t depth, A a, const float* HWY_RESTRICT b, size_t b_step) {
  const FloatTag d;
#pragma GCC unroll 2
  for (size_t k = 0; k < depth; k++) {
    FloatVec bk[N];
#pragma GCC unroll 4
    for (size_t v = 0; v < N; v++) bk[v] = hn::LoadU(d, b + k * b_step + v * kLanes);
#pragma GCC unroll 12
    for (size_t i = 0; i < R; i++) {
      const FloatVec aik = hn::Set(d, a(i, k));
#pragma GCC unroll 4
      for (size_t v = 0; v < N; v++) tile.c[i][v] = hn::MulAdd(aik, bk[v], tile.c[i][v]);
    }
  }
}

// tile.c[i][v] = row(i, v) for all rows and vectors.
template <size_t R, size_t N, class Row>
HWY_INLINE void FillTile(Tile<R, N>& tile, const Row& row) {
#pragma GCC unroll 12
  for (size_t i = 0; i < R; i++)
#pragma GCC unroll 4
    for (size_t v = 0; v < N; v++) tile.c[i][v] = row(i, v);
}

template <size_t R, size_t N>
HWY_INLINE void StoreTile(const Tile<R, N>& tile, float* HWY_RESTRICT to, size_t stride) {
  const FloatTag d;
#pragma GCC unroll 12
  for (size_t i = 0; i < R; i++)
#pragma GCC unroll 4
    for (size_t v = 0; v < N; v++) hn::StoreU(tile.c[i][v], d, to + i * stride + v * kLanes);
}

// Calls body.operator()<R>(first row) for tiles that cover `rows` rows, largest first. With one vector, six rows
// are too few sums to keep two pipes of four cycles busy.
template <size_t N, class Body>
HWY_INLINE void ForEachTile(size_t rows, const Body& body) {
  size_t i = 0;
  if constexpr (N == 1)
    for (; i + 2 * kTileRows <= rows; i += 2 * kTileRows) body.template operator()<2 * kTileRows>(i);
  for (; i + kTileRows <= rows; i += kTileRows) body.template operator()<kTileRows>(i);
  if (i + 4 <= rows) body.template operator()<4>(i), i += 4;
  if (i + 2 <= rows) body.template operator()<2>(i), i += 2;
  if (i < rows) body.template operator()<1>(i);
}

// Calls body.operator()<N>() with N = vectors, 1 to kVectors.
template <class Body>
HWY_INLINE void WithVectors(size_t vectors, const Body& body) {
  if constexpr (kVectors > 2) {
    if (vectors == 4) return body.template operator()<4>();
    if (vectors == 3) return body.template operator()<3>();
  }
  if (vectors == 2) return body.template operator()<2>();
  body.template operator()<1>();
}

// The end of a product whose sums are stored unchanged.
struct KeepSum {
  HWY_INLINE FloatVec operator()(size_t /*i*/, size_t /*v*/, FloatVec sum) const { return sum; }
};

// c[i][v] = end(i, v, start(i, v) + sum over k < depth of a(i, k) b[k][v]) for the first `vectors` vectors of a panel;
// rows of b and c are panels. a_from(i) is a from row i on.
template <class From, class Start, class End>
HWY_INLINE void PanelProduct(size_t vectors, size_t rows, size_t depth, const From& a_from, const float* HWY_RESTRICT b,
                             float* HWY_RESTRICT c, const Start& start, const End& end) {
  WithVectors(vectors, [&]<size_t N>() PHASOR_TILE_LAMBDA {
    ForEachTile<N>(rows, [&]<size_t R>(size_t i) PHASOR_TILE_LAMBDA {
      Tile<R, N> tile;
      FillTile(tile, [&](size_t r, size_t v) PHASOR_TILE_LAMBDA { return start(i + r, v); });
      Accumulate(tile, depth, a_from(i), b, kPanel);
      FillTile(tile, [&](size_t r, size_t v) PHASOR_TILE_LAMBDA { return end(i + r, v, tile.c[r][v]); });
      StoreTile(tile, c + i * kPanel, kPanel);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
