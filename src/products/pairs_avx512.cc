// Products of pairs by vdpbf16ps: tiles of 6 rows by 4 vectors in registers, as those of floats.
#include "pairs.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#if !defined(__clang__)
// False alarms on its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// Each function says what it is compiled for, so that no other code of this file uses instructions a CPU may lack.
#define PHASOR_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#define PHASOR_AVX512_INLINE PHASOR_AVX512 inline __attribute__((always_inline))

namespace phasor::products {
namespace {

constexpr std::int64_t kLanes = 16, kMostVectors = 4;

PHASOR_AVX512_INLINE __m512bh LoadPairs(const bf16* b) {
  return (__m512bh)_mm512_loadu_si512(b);  // NOLINT: vectors of the same size
}

PHASOR_AVX512_INLINE __m512bh BroadcastPair(const bf16* a) {
  int pair;
  std::memcpy(&pair, a, sizeof(pair));
  return (__m512bh)_mm512_set1_epi32(pair);  // NOLINT: vectors of the same size
}

// R rows of c by N vectors, all pairs.
template <int R, int N>
PHASOR_AVX512_INLINE void MultiplyTile(const PairProduct& p, const bf16* a, const bf16* b, float* c) {
  __m512 sums[R][N];
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int v = 0; v < N; v++)
      sums[r][v] = p.adds ? _mm512_loadu_ps(c + r * p.c_stride + v * kLanes) : _mm512_setzero_ps();
  for (std::int64_t k = 0; k < p.pairs; k++, a += 2, b += p.b_stride) {
    __m512bh pairs[N];
#pragma GCC unroll 4
    for (int v = 0; v < N; v++) pairs[v] = LoadPairs(b + 2 * v * kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < R; r++) {
      const __m512bh pair = BroadcastPair(a + r * p.a_stride);
#pragma GCC unroll 4
      for (int v = 0; v < N; v++) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], pair, pairs[v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int v = 0; v < N; v++) _mm512_storeu_ps(c + r * p.c_stride + v * kLanes, sums[r][v]);
}

// All rows of N vectors of columns.
template <int N>
PHASOR_AVX512 void MultiplyColumns(const PairProduct& p, std::int64_t column) {
  const bf16* b = p.b + 2 * column;
  const bf16* a = p.a;
  float* c = p.c + column;
  std::int64_t left = p.rows;
  for (; left >= 6; left -= 6, a += 6 * p.a_stride, c += 6 * p.c_stride) MultiplyTile<6, N>(p, a, b, c);
  if (left >= 4) MultiplyTile<4, N>(p, a, b, c), left -= 4, a += 4 * p.a_stride, c += 4 * p.c_stride;
  if (left >= 2) MultiplyTile<2, N>(p, a, b, c), left -= 2, a += 2 * p.a_stride, c += 2 * p.c_stride;
  if (left >= 1) MultiplyTile<1, N>(p, a, b, c);
}

}  // namespace

void multiply_pairs_avx512(const PairProduct& p) {
  std::int64_t column = 0;
  for (; column + kMostVectors * kLanes <= p.columns; column += kMostVectors * kLanes) MultiplyColumns<4>(p, column);
  if (column + 3 * kLanes <= p.columns) return MultiplyColumns<3>(p, column);
  if (column + 2 * kLanes <= p.columns) return MultiplyColumns<2>(p, column);
  if (column + kLanes <= p.columns) MultiplyColumns<1>(p, column);
}

}  // namespace phasor::products

#else  // never called: pair_instructions() is none or plain

void phasor::products::multiply_pairs_avx512(const PairProduct&) {}

#endif
