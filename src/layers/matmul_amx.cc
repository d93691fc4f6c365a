// Float products on tiles of bf16 (AMX). A float of 24 bits is the sum of three bf16 of 8 bits each, rounded:
//
//   a = a1 + a2 + a3,  b = b1 + b2 + b3,  a b = a1 b1 + (a1 b2 + a2 b1) + (a1 b3 + a2 b2 + a3 b1) + less than 2^-23 |a
//   b|
//
// Products of bf16 are exact in the float sums that the tiles hold, so six products of tiles give a product of floats,
// in less than half the time of float instructions, and since fewer sums are rounded, with a smaller error
// (docs/numerics.md).
#include "matmul_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#if !defined(__clang__)
// False alarms on its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// Each function says what it is compiled for, so that no other code of this file uses instructions a CPU may lack.
#define PHASOR_AMX __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")))
#define PHASOR_AMX_INLINE PHASOR_AMX inline __attribute__((always_inline))

namespace phasor::detail {
namespace {

// A tile is 16 rows of 64 bytes: 16 rows of a by 32 steps, or 16 columns of b by 32 steps, or 16 x 16 floats of c.
// A unit, two tiles of rows or columns, has its three parts one behind the other: [unit][32 steps][part][half][tile].
constexpr std::int64_t kSide = 16, kUnit = 2 * kSide, kSteps = 32, kParts = 3;
constexpr std::int64_t kTileBytes = 1024, kPartBytes = 2 * kTileBytes, kUnitBytes = kParts * kPartBytes;
constexpr std::int64_t kTileRowBytes = 64;
constexpr std::int64_t kElementBytes = kUnitBytes / kUnit / kSteps;

// Where the tiles of 32 rows or columns and 32 steps are.
std::byte* tiles_at(const PackedOperand& packed, std::int64_t index, std::int64_t step) {
  const std::int64_t units_of_steps = (packed.steps.count + kSteps - 1) / kSteps;
  const std::int64_t unit = (index - packed.first) / kUnit, steps = (step - packed.steps.first) / kSteps;
  return reinterpret_cast<std::byte*>(packed.data) + (unit * units_of_steps + steps) * kUnitBytes;
}

// ---- Packing

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

// The three parts of two vectors; the third is what the first two leave, 8 bits. Which two steps make a pair does not
// matter, as long as they are the same for a and b: step j of 32 goes with step 16 + j.
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

// An operand by rows or columns, which are its indices, and steps.
struct Operand {
  const float* data;
  std::int64_t index_stride, step_stride;
};

// Tiles of a have a row for each index, those of b for each pair of steps. An operand whose memory runs the other way
// is transposed.
void pack(const Operand& x, bool tile_rows_are_steps, const MatmulPart& part, const PackedOperand& packed) {
  const bool along_steps = x.step_stride == 1;
  const std::int64_t stride = along_steps ? x.index_stride : x.step_stride;
  const auto pack_tiles = [&](std::int64_t i, std::int64_t k) {
    const std::int64_t indices = part.count - i, steps = part.steps.count - k;
    const float* from = x.data + (part.first + i) * x.index_stride + (part.steps.first + k) * x.step_stride;
    std::byte* to = tiles_at(packed, part.first + i, part.steps.first + k) + i % kUnit / kSide * kTileBytes;
    if (along_steps)
      PackTiles({from, stride, indices, steps}, {from + kSide, stride, indices, steps - kSide}, tile_rows_are_steps,
                to);
    else
      PackTiles({from, stride, steps, indices}, {from + kSide * stride, stride, steps - kSide, indices},
                !tile_rows_are_steps, to);
  };
  const std::int64_t indices = (part.count + kUnit - 1) / kUnit * kUnit;  // the last unit's tiles are both written
  if (along_steps)
    for (std::int64_t i = 0; i < indices; i += kSide)
      for (std::int64_t k = 0; k < part.steps.count; k += kSteps) pack_tiles(i, k);
  else
    for (std::int64_t k = 0; k < part.steps.count; k += kSteps)
      for (std::int64_t i = 0; i < indices; i += kSide) pack_tiles(i, k);
}

void pack_rows(const MatmulJob& job, const MatmulPart& part, const PackedOperand& to) {
  pack({job.a.data, job.a.strides[0], is_contiguous_along(job.a, 1) ? 1 : job.a.strides[1]}, false, part, to);
}

void pack_columns(const MatmulJob& job, const MatmulPart& part, const PackedOperand& to) {
  pack({job.b.data, job.b.strides[1], is_contiguous_along(job.b, 0) ? 1 : job.b.strides[0]}, true, part, to);
}

// ---- Products

// 32 rows of 32 floats; a stride of 0 repeats the same row.
template <class T>
struct Square {
  T* data;
  std::int64_t stride;

  T* quarter(std::int64_t row, std::int64_t column) const { return data + row * kSide * stride + column * kSide; }
  std::int64_t bytes() const { return stride * static_cast<std::int64_t>(sizeof(T)); }
};

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

// Two rows of the square that comes next: it is loaded, or at least stored, at once.
PHASOR_AMX_INLINE void FetchRows(const float* c, std::int64_t stride) {
  for (const float* row : {c, c + stride})
    for (const float* line : {row, row + kSide}) __builtin_prefetch(line, 1, 2);
}

// c = start + a b. Small products come first, and each shares an operand with the one before.
PHASOR_AMX void MultiplySquare(const std::byte* a, const std::byte* b, std::int64_t steps, Square<const float> start,
                               Square<float> c, const float* next, std::int64_t next_stride) {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // g++ does not know that tiles are loaded from memory
  _tile_loadd(0, start.quarter(0, 0), start.bytes());
  _tile_loadd(1, start.quarter(0, 1), start.bytes());
  _tile_loadd(2, start.quarter(1, 0), start.bytes());
  _tile_loadd(3, start.quarter(1, 1), start.bytes());
  for (std::int64_t k = 0; k < steps; k += kSteps, a += kUnitBytes, b += kUnitBytes) {
    FetchRows(next, next_stride), next += 2 * next_stride;
    LoadA(a), LoadB(b + 2 * kPartBytes), AddProduct();  // a1 b3
    LoadB(b + kPartBytes), AddProduct();                // a1 b2
    LoadA(a + kPartBytes), AddProduct();                // a2 b2
    LoadB(b), AddProduct();                             // a2 b1
    LoadA(a + 2 * kPartBytes), AddProduct();            // a3 b1
    LoadA(a), AddProduct();                             // a1 b1
  }
  _tile_stored(0, c.quarter(0, 0), c.bytes());
  _tile_stored(1, c.quarter(0, 1), c.bytes());
  _tile_stored(2, c.quarter(1, 0), c.bytes());
  _tile_stored(3, c.quarter(1, 1), c.bytes());
}

// Rows and columns of c, at most a unit of each.
class SquareOfC {
 public:
  SquareOfC(const MatmulJob& job, const MatmulBlock& block, const MatmulSteps& steps, std::int64_t row,
            std::int64_t column)
      : c_(job.c.data + row * job.c.strides[0] + column),
        stride_(job.c.strides[0]),
        rows_(std::min(kUnit, block.first_row + block.rows - row)),
        columns_(std::min(kUnit, block.first_column + block.columns - column)),
        adds_(steps.first > 0 || job.into == Into::add),
        bias_(job.bias && steps.first == 0 ? job.bias + column : nullptr),
        next_(rows_ < kUnit || row + kUnit == block.first_row + block.rows
                  ? c_ + (block.first_row - row) * stride_ + kUnit
                  : c_ + kUnit * stride_) {}

  // In place, unless its edge is cut or its start a sum.
  void multiply(const std::byte* a, const std::byte* b, std::int64_t steps) const {
    alignas(64) static constexpr float kZeros[kUnit] = {};
    if (rows_ < kUnit || columns_ < kUnit || (adds_ && bias_))
      multiply_in_buffer(a, b, steps);
    else if (adds_)
      MultiplySquare(a, b, steps, {c_, stride_}, {c_, stride_}, next_, stride_);
    else
      MultiplySquare(a, b, steps, {bias_ ? bias_ : kZeros, 0}, {c_, stride_}, next_, stride_);
  }

 private:
  void multiply_in_buffer(const std::byte* a, const std::byte* b, std::int64_t steps) const {
    alignas(64) float buffer[kUnit * kUnit] = {};
    for (std::int64_t i = 0; i < rows_; i++)
      for (std::int64_t j = 0; j < columns_; j++)
        buffer[i * kUnit + j] = (adds_ ? c_[i * stride_ + j] : 0.0f) + (bias_ ? bias_[j] : 0.0f);
    MultiplySquare(a, b, steps, {buffer, kUnit}, {buffer, kUnit}, next_, stride_);
    for (std::int64_t i = 0; i < rows_; i++) std::copy_n(buffer + i * kUnit, columns_, c_ + i * stride_);
  }

  float* c_;
  std::int64_t stride_, rows_, columns_;
  bool adds_;          // to c
  const float* bias_;  // if any
  const float* next_;  // the square below, or the first of the next columns
};

PHASOR_AMX void Configure() {
  static constexpr TileConfiguration kTiles;  // in memory: g++ takes the instruction to read its first bytes alone
  _tile_loadconfig(&kTiles);
}
PHASOR_AMX void Release() { _tile_release(); }

void multiply_block(const MatmulJob& job, const MatmulBlock& block, const MatmulSteps& steps, const PackedOperand& a,
                    const PackedOperand& b) {
  Configure();
  for (std::int64_t j = block.first_column; j < block.first_column + block.columns; j += kUnit)
    for (std::int64_t i = block.first_row; i < block.first_row + block.rows; i += kUnit)
      SquareOfC(job, block, steps, i, j)
          .multiply(tiles_at(a, i, steps.first), tiles_at(b, j, steps.first), steps.count);
  Release();
}

}  // namespace

MatmulKernels amx_kernels() {
  return {.rows = kUnit,
          .columns = kUnit,
          .steps = kSteps,
          .bytes = kElementBytes,
          .always_packs_rows = true,
          .pack_rows = pack_rows,
          .pack_columns = pack_columns,
          .multiply_block = multiply_block};
}

}  // namespace phasor::detail

#else  // never called: see uses_amx()

namespace phasor::detail {

MatmulKernels amx_kernels() { return {}; }

}  // namespace phasor::detail

#endif
