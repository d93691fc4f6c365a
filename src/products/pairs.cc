#include "pairs.h"

#include <cmath>
#include <limits>

#include "simd/dispatch.h"

namespace phasor::products {
namespace {

// Subnormal numbers are 0, before and after an operation.
float flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }
float element(const bf16* x, std::int64_t i) { return flushed(static_cast<float>(x[i])); }

// sum + a b. The product is exact unless it is subnormal.
float add_product(float sum, float a, float b) { return flushed(flushed(sum) + a * b); }

// Calls sum(c before, row of a, pairs of b for the column) for each element of c.
template <class Sum>
void for_each_element(const PairProduct& p, const Sum& sum) {
  for (std::int64_t i = 0; i < p.rows; i++)
    for (std::int64_t j = 0; j < p.columns; j++) {
      float& c = p.c[i * p.c_stride + j];
      c = sum(p.adds ? c : 0.0f, p.a + i * p.a_stride, p.b + 2 * j);
    }
}

}  // namespace

// Intel's manual, VDPBF16PS: the second element of a pair is added first.
void multiply_pairs_plain(const PairProduct& p) {
  for_each_element(p, [&](float c, const bf16* a, const bf16* b) {
    for (std::int64_t k = 0; k < p.pairs; k++, b += p.b_stride)
      for (const int part : {1, 0}) c = add_product(c, element(a, 2 * k + part), element(b, part));
    return c;
  });
}

// Intel's manual, TDPBF16PS: for each 16 pairs, the first and the second elements have sums of their own.
void multiply_tiles_plain(const PairProduct& p) {
  constexpr std::int64_t kTilePairs = 16;
  for_each_element(p, [&](float c, const bf16* a, const bf16* b) {
    for (std::int64_t first = 0; first < p.pairs; first += kTilePairs) {
      float sums[2] = {};
      for (std::int64_t k = first; k < std::min(first + kTilePairs, p.pairs); k++, b += p.b_stride)
        for (const int part : {0, 1}) sums[part] = add_product(sums[part], element(a, 2 * k + part), element(b, part));
      c = flushed(flushed(c) + flushed(sums[0] + sums[1]));
    }
    return c;
  });
}

bool PairMultiplier::available() { return pair_instructions() != PairInstructions::none; }

PairMultiplier::PairMultiplier() {
  switch (pair_instructions()) {
    case PairInstructions::amx:
      multiply_ = multiply_pairs_amx;
      tiles_.emplace();
      return;
    case PairInstructions::avx512_bf16:
      multiply_ = multiply_pairs_avx512;
      return;
    case PairInstructions::plain:
    case PairInstructions::none:
      multiply_ = multiply_pairs_plain;
      return;
  }
}

}  // namespace phasor::products
