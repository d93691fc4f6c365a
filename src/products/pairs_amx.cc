// Products of pairs on tiles: squares of 32 x 32 of c in four tiles, as those of floats (amx.h).
#include "pairs.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

// Each function says what it is compiled for, so that no other code of this file uses instructions a CPU may lack.
#define PHASOR_AMX __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")))
#define PHASOR_AMX_INLINE PHASOR_AMX inline __attribute__((always_inline))

namespace phasor::products {
namespace {

// Of a tile: its rows, and the pairs or floats of a row.
constexpr std::int64_t kSide = amx::kSide;
constexpr std::int64_t kFloat = sizeof(float);

// What a tile is loaded from: the operand itself, or a copy that zeros complete to 16 rows of 64 bytes.
template <class T>
struct TileSource {
  const T* data;
  std::int64_t stride;

  std::int64_t bytes() const { return stride * static_cast<std::int64_t>(sizeof(T)); }
};

// Memory of a tile, not initialised.
template <class T>
class TileCopy {
 public:
  T* data() { return reinterpret_cast<T*>(bytes_); }

 private:
  alignas(64) std::byte bytes_[kSide * 64];
};

template <class T>
TileSource<T> Completed(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t elements,
                        TileCopy<T>& copy) {
  constexpr std::int64_t kElements = 64 / sizeof(T);
  if (rows == kSide && elements == kElements) return {from, stride};
  std::fill_n(copy.data(), kSide * kElements, T());
  for (std::int64_t i = 0; i < rows; i++) std::copy_n(from + i * stride, elements, copy.data() + i * kElements);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // g++ does not know that tiles are loaded from memory
  return {copy.data(), kElements};
}

struct TileCopies {
  TileCopy<bf16> a, a_lower, b, b_right;
  TileCopy<float> c;
};

// Loads or stores a tile of c, 16 columns of some rows. `tile` is the number of its register, a literal.
#define PHASOR_LOAD_C(tile, from, rows)                                                  \
  {                                                                                      \
    const TileSource<float> source = Completed(from, p.c_stride, rows, kSide, copies.c); \
    _tile_loadd(tile, source.data, source.bytes());                                      \
  }
#define PHASOR_STORE_C(tile, to, rows)                                        \
  {                                                                           \
    const bool whole = (rows) == kSide;                                       \
    float* stored = whole ? (to) : copies.c.data();                           \
    _tile_stored(tile, stored, (whole ? p.c_stride : kSide) * kFloat);        \
    for (std::int64_t i = 0; !whole && i < (rows); i++)                       \
      std::copy_n(copies.c.data() + i * kSide, kSide, (to) + i * p.c_stride); \
  }

// Prefetches two rows of the square below, which may be outside of c.
PHASOR_AMX_INLINE void FetchRows(const float* c, std::int64_t stride) {
  for (const float* row : {c, c + stride})
    for (const float* line : {row, row + kSide}) __builtin_prefetch(line, 1, 2);
}

// 16 columns of c, or 32 (N = 2), by up to 16 rows, or 17 to 32 (M = 2). Tiles 0 to 3 hold c, 4 and 5 a, 6 and 7 b.
template <int M, int N>
PHASOR_AMX_INLINE void MultiplySquare(const PairProduct& p, std::int64_t row, std::int64_t column, TileCopies& copies) {
  const std::int64_t upper = std::min(kSide, p.rows - row), lower = std::min(kSide, p.rows - row - kSide);
  float* c = p.c + row * p.c_stride + column;
  [[maybe_unused]] float* c_lower = c + kSide * p.c_stride;
  if (p.adds) {
    PHASOR_LOAD_C(0, c, upper)
    if constexpr (N > 1) PHASOR_LOAD_C(1, c + kSide, upper)
    if constexpr (M > 1) PHASOR_LOAD_C(2, c_lower, lower)
    if constexpr (M > 1 && N > 1) PHASOR_LOAD_C(3, c_lower + kSide, lower)
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const bf16* a = p.a + row * p.a_stride;
  const bf16* b = p.b + 2 * column;
  const float* next = c + 2 * kSide * p.c_stride;
  for (std::int64_t k = 0; k < p.pairs; k += kSide, a += 2 * kSide, b += kSide * p.b_stride) {
    FetchRows(next, p.c_stride), next += 2 * p.c_stride;
    const std::int64_t pairs = std::min(kSide, p.pairs - k);
    const TileSource<bf16> a0 = Completed(a, p.a_stride, upper, 2 * pairs, copies.a);
    const TileSource<bf16> b0 = Completed(b, p.b_stride, pairs, 2 * kSide, copies.b);
    _tile_loadd(4, a0.data, a0.bytes());
    _tile_loadd(6, b0.data, b0.bytes());
    if constexpr (M > 1) {
      const TileSource<bf16> a1 = Completed(a + kSide * p.a_stride, p.a_stride, lower, 2 * pairs, copies.a_lower);
      _tile_loadd(5, a1.data, a1.bytes());
    }
    if constexpr (N > 1) {
      const TileSource<bf16> b1 = Completed(b + 2 * kSide, p.b_stride, pairs, 2 * kSide, copies.b_right);
      _tile_loadd(7, b1.data, b1.bytes());
    }
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (M > 1) _tile_dpbf16ps(2, 5, 6);
    if constexpr (N > 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (M > 1 && N > 1) _tile_dpbf16ps(3, 5, 7);
  }
  PHASOR_STORE_C(0, c, upper)
  if constexpr (N > 1) PHASOR_STORE_C(1, c + kSide, upper)
  if constexpr (M > 1) PHASOR_STORE_C(2, c_lower, lower)
  if constexpr (M > 1 && N > 1) PHASOR_STORE_C(3, c_lower + kSide, lower)
}

template <int M>
PHASOR_AMX void MultiplyRows(const PairProduct& p, std::int64_t row) {
  TileCopies copies;
  std::int64_t column = 0;
  for (; column + 2 * kSide <= p.columns; column += 2 * kSide) MultiplySquare<M, 2>(p, row, column, copies);
  if (column < p.columns) MultiplySquare<M, 1>(p, row, column, copies);
}

}  // namespace

PHASOR_AMX void multiply_pairs_amx(const PairProduct& p) {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // g++ does not know that tiles are loaded from memory
  std::int64_t row = 0;
  for (; p.rows - row > kSide; row += 2 * kSide) MultiplyRows<2>(p, row);
  if (row < p.rows) MultiplyRows<1>(p, row);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace phasor::products

#else  // never called: pair_instructions() is none or plain

void phasor::products::multiply_pairs_amx(const PairProduct&) {}

#endif
