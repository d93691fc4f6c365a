// Products of bf16 with sums of floats, in the layout that the instructions for them read:
//
//   a  rows, the depth contiguous                    [rows][depth]
//   b  a panel, whose rows are pairs of the depth    [depth / 2][columns][2]
//   c  rows of floats                                [rows][columns]
//
// vdpbf16ps (AVX512_BF16) multiplies a pair of a, broadcast, by a row of pairs of b. A tile (AMX) multiplies 16 rows of
// a by 16 rows of pairs of b. Products of bf16 are exact in float; how sums are rounded depends on the instruction,
// never on threads. Both take subnormal numbers as 0.
#pragma once

#include <cstdint>
#include <optional>

#include "phasor/core/dtype.h"
#include "products/amx.h"

namespace phasor::products {

struct PairProduct {
  const bf16* a = nullptr;
  std::int64_t a_stride = 0;  // elements from row to row, even
  const bf16* b = nullptr;    // [pairs][columns][2], aligned to 4 bytes
  std::int64_t b_stride = 0;  // elements from a row of pairs to the next, even
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t rows = 0, columns = 0, pairs = 0;
  bool adds = false;  // to c
};

// Held by a thread while it multiplies: tiles are configured meanwhile. Only where available().
class PairMultiplier {
 public:
  // Columns of a product are a multiple of this many, but for EMU_BF16.
  static constexpr std::int64_t kColumns = 16;

  // Whether the SIMD target in use has such instructions. They go with its vectors.
  static bool available();

  PairMultiplier();

  // c = a b, or c += a b. A product without pairs gives 0.
  void operator()(const PairProduct& product) const { multiply_(product); }

 private:
  void (*multiply_)(const PairProduct&);
  std::optional<amx::Tiles> tiles_;
};

// What the instructions compute, in plain code: vdpbf16ps, which EMU_BF16 stands for, and the product of tiles.
void multiply_pairs_plain(const PairProduct& product);
void multiply_tiles_plain(const PairProduct& product);

// The instructions themselves; the second with tiles configured.
void multiply_pairs_avx512(const PairProduct& product);
void multiply_pairs_amx(const PairProduct& product);

}  // namespace phasor::products
