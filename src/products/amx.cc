#include "amx.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <atomic>

#if !defined(__clang__)
// False alarms on its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// Each function says what it is compiled for, so that no other code of this file uses instructions a CPU may lack.
#define PHASOR_AMX __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")))
#define PHASOR_AMX_INLINE PHASOR_AMX inline __attribute__((always_inline))

namespace phasor::products::amx {
namespace {

constexpr std::int64_t kTileRowBytes = 64;

PHASOR_AMX_INLINE __m512i Bits(__m512 x) { return _mm512_castps_si512(x); }

PHASOR_AMX_INLINE __m512 KeepUpper(__m512i bits) {
  return _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}

// The nearest bf16, the larger at a tie, as a float.
PHASOR_AMX_INLINE __m512 Nearest(__m512 x) { return KeepUpper(_mm512_add_epi32(Bits(x), _mm512_set1_epi32(0x8000))); }

// The same, but what would become infinite is cut off instead.
PHASOR_AMX_INLINE __m512 NearestFinite(__m512 x) {
  const __m512i size = _mm512_and_si512(Bits(x), _mm512_set1_epi32(0x7fffffff));
  const __mmask16 rounds = _mm512_cmplt_epi32_mask(size, _mm512_set1_epi32(0x7f7f8000));
  return KeepUpper(_mm512_mask_add_epi32(Bits(x), rounds, Bits(x), _mm512_set1_epi32(0x8000)));
}

// The upper halves of two vectors of floats, which are the bf16 they hold, as pairs.
PHASOR_AMX_INLINE void StorePairs(__m512 low, __m512 high, std::byte* to) {
  _mm512_store_si512(to, _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(Bits(low), 16), Bits(high)));
}

// The three parts of two vectors; the third is what the first two leave, 8 bits. Any two indices of the depth can make
// a pair, if they are the same for a and b: index j of 32 goes with index 16 + j.
PHASOR_AMX_INLINE void StoreParts(__m512 low, __m512 high, std::byte* to) {
  const __m512 low1 = NearestFinite(low), high1 = NearestFinite(high);
  StorePairs(low1, high1, to);
  const __m512 low_rest = _mm512_sub_ps(low, low1), high_rest = _mm512_sub_ps(high, high1);
  const __m512 low2 = Nearest(low_rest), high2 = Nearest(high_rest);
  StorePairs(low2, high2, to + kPartBytes);
  StorePairs(_mm512_sub_ps(low_rest, low2), _mm512_sub_ps(high_rest, high2), to + 2 * kPartBytes);
}

// Lane j of vector i goes to lane i of vector j: first within squares of 4 x 4, then these squares.
PHASOR_AMX_INLINE void Transpose(__m512 (&v)[kSide]) {
  __m512 squares[kSide];
  for (int i = 0; i < kSide; i += 4) {
    const __m512 low01 = _mm512_unpacklo_ps(v[i], v[i + 1]), high01 = _mm512_unpackhi_ps(v[i], v[i + 1]);
    const __m512 low23 = _mm512_unpacklo_ps(v[i + 2], v[i + 3]), high23 = _mm512_unpackhi_ps(v[i + 2], v[i + 3]);
    squares[i] = _mm512_shuffle_ps(low01, low23, 0x44);
    squares[i + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
    squares[i + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
    squares[i + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
  }
  for (int j = 0; j < 4; j++) {
    const __m512 even01 = _mm512_shuffle_f32x4(squares[j], squares[4 + j], 0x88);
    const __m512 odd01 = _mm512_shuffle_f32x4(squares[j], squares[4 + j], 0xdd);
    const __m512 even23 = _mm512_shuffle_f32x4(squares[8 + j], squares[12 + j], 0x88);
    const __m512 odd23 = _mm512_shuffle_f32x4(squares[8 + j], squares[12 + j], 0xdd);
    v[j] = _mm512_shuffle_f32x4(even01, even23, 0x88);
    v[4 + j] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
    v[8 + j] = _mm512_shuffle_f32x4(even01, even23, 0xdd);
    v[12 + j] = _mm512_shuffle_f32x4(odd01, odd23, 0xdd);
  }
}

// Up to 16 lines of up to 16 floats; zeros beyond.
struct Lines {
  const float* from;
  std::int64_t stride, count, floats;
};

PHASOR_AMX_INLINE void Load(const Lines& lines, __m512 (&v)[kSide]) {
  const std::int64_t floats = std::clamp<std::int64_t>(lines.floats, 0, kSide);
  const auto mask = static_cast<__mmask16>((1u << floats) - 1);
  for (std::int64_t i = 0; i < kSide; i++)
    v[i] = i < lines.count ? _mm512_maskz_loadu_ps(mask, lines.from + i * lines.stride) : _mm512_setzero_ps();
}

PHASOR_AMX void PackTiles(const Lines& low, const Lines& high, bool transposes, std::byte* to) {
  __m512 lows[kSide], highs[kSide];
  Load(low, lows), Load(high, highs);
  if (transposes) Transpose(lows), Transpose(highs);
  for (std::int64_t i = 0; i < kSide; i++) StoreParts(lows[i], highs[i], to + i * kTileRowBytes);
}

}  // namespace

// An operand whose memory order differs from that of its tiles is transposed.
void pack_unit(const Source& x, TileRows rows, std::byte* to) {
  const bool along_depth = x.depth_stride == 1;
  const bool transposes = along_depth != (rows == TileRows::indices);
  for (std::int64_t i = 0; i < kUnit; i += kSide, to += kTileBytes) {
    const float* from = x.data + i * x.index_stride;
    const std::int64_t indices = x.indices - i;
    if (along_depth)
      PackTiles({from, x.index_stride, indices, x.depth}, {from + kSide, x.index_stride, indices, x.depth - kSide},
                transposes, to);
    else
      PackTiles({from, x.depth_stride, x.depth, indices},
                {from + kSide * x.depth_stride, x.depth_stride, x.depth - kSide, indices}, transposes, to);
  }
}

namespace {

template <class T>
T* quarter(const Square<T>& square, std::int64_t row, std::int64_t column) {
  return square.data + row * kSide * square.stride + column * kSide;
}

template <class T>
std::int64_t stride_in_bytes(const Square<T>& square) {
  return square.stride * static_cast<std::int64_t>(sizeof(T));
}

// Tiles 0 to 3 hold c, 4 and 5 a, 6 and 7 b.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

PHASOR_AMX_INLINE void LoadA(const std::byte* a) {
  _tile_loadd(4, a, kTileRowBytes);
  _tile_loadd(5, a + kTileBytes, kTileRowBytes);
}

PHASOR_AMX_INLINE void LoadB(const std::byte* b) {
  _tile_loadd(6, b, kTileRowBytes);
  _tile_loadd(7, b + kTileBytes, kTileRowBytes);
}

PHASOR_AMX_INLINE void AddProduct() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// Prefetches two rows of the next square, which is loaded, or at least stored, as a whole.
PHASOR_AMX_INLINE void FetchRows(const float* c, std::int64_t stride) {
  for (const float* row : {c, c + stride})
    for (const float* line : {row, row + kSide}) __builtin_prefetch(line, 1, 2);
}

}  // namespace

// Small products come first, and each shares an operand with the one before.
PHASOR_AMX void multiply_units(const std::byte* a, const std::byte* b, std::int64_t depth, Square<const float> start,
                               Square<float> c, Square<const float> next) {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // g++ does not know that tiles are loaded from memory
  _tile_loadd(0, quarter(start, 0, 0), stride_in_bytes(start));
  _tile_loadd(1, quarter(start, 0, 1), stride_in_bytes(start));
  _tile_loadd(2, quarter(start, 1, 0), stride_in_bytes(start));
  _tile_loadd(3, quarter(start, 1, 1), stride_in_bytes(start));
  for (std::int64_t k = 0; k < depth; k += kDepth, a += kUnitBytes, b += kUnitBytes) {
    FetchRows(next.data, next.stride), next.data += 2 * next.stride;
    LoadA(a), LoadB(b + 2 * kPartBytes), AddProduct();  // a1 b3
    LoadB(b + kPartBytes), AddProduct();                // a1 b2
    LoadA(a + kPartBytes), AddProduct();                // a2 b2
    LoadB(b), AddProduct();                             // a2 b1
    LoadA(a + 2 * kPartBytes), AddProduct();            // a3 b1
    LoadA(a), AddProduct();                             // a1 b1
  }
  _tile_stored(0, quarter(c, 0, 0), stride_in_bytes(c));
  _tile_stored(1, quarter(c, 0, 1), stride_in_bytes(c));
  _tile_stored(2, quarter(c, 1, 0), stride_in_bytes(c));
  _tile_stored(3, quarter(c, 1, 1), stride_in_bytes(c));
}

namespace {

// In memory that the compiler cannot track: g++ assumes that these instructions access only the first bytes.
PHASOR_AMX void Configure(std::uint8_t* before) {
  static constexpr TileConfiguration kTiles;
  _tile_storeconfig(before);
  _tile_loadconfig(&kTiles);
}

PHASOR_AMX void Restore(const std::uint8_t* before) {
  const bool were_set_up = before[0] != 0;  // the palette
  if (were_set_up)
    _tile_loadconfig(before);
  else
    _tile_release();
}

}  // namespace

Tiles::Tiles() { Configure(before_); }
Tiles::~Tiles() { Restore(before_); }

}  // namespace phasor::products::amx

#else  // never called: uses_amx() is false

namespace phasor::products::amx {

void pack_unit(const Source&, TileRows, std::byte*) {}
void multiply_units(const std::byte*, const std::byte*, std::int64_t, Square<const float>, Square<float>,
                    Square<const float>) {}
Tiles::Tiles() = default;
Tiles::~Tiles() = default;

}  // namespace phasor::products::amx

#endif
