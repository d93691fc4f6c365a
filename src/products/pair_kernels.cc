// The kernels of a product of bf16 (pairs.h): operands are rounded to bf16 if they are not of it, and packed as pairs.
// The two elements of a pair are one word of 32 bits. a becomes rows of words, b panels of words, each with the whole
// depth, so what is stored in the other order is transposed, squares of words at a time.
#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pair_kernels.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels.h"
#include "pairs.h"
#include "panel-inl.h"
#include "simd/element-inl.h"

// One for all targets.
#ifndef PHASOR_PRODUCTS_PAIR_LAYOUT_
#define PHASOR_PRODUCTS_PAIR_LAYOUT_
namespace phasor::products {
namespace {

// Columns of a panel: whole tiles of every instruction. Rows, columns and depth are padded with zeros to multiples of
// the others.
constexpr std::int64_t kPairPanel = 64, kPairColumns = PairMultiplier::kColumns, kPairDepth = 32, kPairRows = 32;

// Rows of a or columns of b (the indices) by the depth.
template <class T>
struct PairSource {
  const T* data;
  std::int64_t index_stride, depth_stride;  // one of them is 1
};

}  // namespace
}  // namespace phasor::products
#endif

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WordTag = hn::ScalableTag<uint32_t>;
using WordVec = hn::Vec<WordTag>;
constexpr size_t kPairLanes = 2 * kLanes;

// The bf16 nearest to each float, in the upper half of its lane.
HWY_INLINE WordVec RoundedUpper(const float* HWY_RESTRICT from) {
  const FloatTag d;
  return hn::And(RoundToBf16(d, hn::LoadU(d, from)), hn::Set(WordTag(), 0xffff0000u));
}

// The pairs of two lines that are next to each other in the depth.
HWY_INLINE WordVec PairsOfLines(const float* HWY_RESTRICT first, const float* HWY_RESTRICT second) {
  return hn::Or(hn::ShiftRight<16>(RoundedUpper(first)), RoundedUpper(second));
}
HWY_INLINE WordVec PairsOfLines(const bf16* HWY_RESTRICT first, const bf16* HWY_RESTRICT second) {
  const FloatTag d;
  return hn::Or(LoadBits16(d, &first->bits), hn::ShiftLeft<16>(LoadBits16(d, &second->bits)));
}

// Pairs that follow each other in a line along the depth, as the two halves of words in memory.
HWY_INLINE void StoreLine(const float* HWY_RESTRICT from, bf16* HWY_RESTRICT to) {
  const FloatTag d;
  StoreFloat(hn::LoadU(d, from), d, to);
  StoreFloat(hn::LoadU(d, from + kLanes), d, to + kLanes);
}
HWY_INLINE void StoreLine(const bf16* HWY_RESTRICT from, bf16* HWY_RESTRICT to) {
  std::memcpy(to, from, kPairLanes * sizeof(bf16));
}

// to[j][i] = from[i][j], for a square of words in lanes of floats.
HWY_INLINE void TransposeWords(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, size_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(to, from, sizeof(float));
  (void)to_stride;
#else
  const auto keep = [](auto, size_t) HWY_ATTR { return [](FloatVec v) HWY_ATTR { return v; }; };
  TransposeRows(FloatTag(), from, kLanes, kLanes, keep, to, to_stride);
#endif
}

// A square of words, kLanes indices by kLanes pairs of the depth, to lines along the depth (a) or the index (b).
template <bool kAlongDepth, class T>
HWY_INLINE void PackSquare(const products::PairSource<T>& x, bf16* HWY_RESTRICT to, size_t to_stride) {
  HWY_ALIGN float buffer[kLanes * kLanes];
  const bool stored_along_depth = x.depth_stride == 1;
  const bool transposes = stored_along_depth != kAlongDepth;
  bf16* lines = transposes ? reinterpret_cast<bf16*>(buffer) : to;
  const size_t stride = transposes ? kPairLanes : to_stride;
  for (size_t i = 0; i < kLanes; i++) {
    const auto at = static_cast<int64_t>(i);
    if (stored_along_depth) {
      StoreLine(x.data + at * x.index_stride, lines + i * stride);
    } else {
      const T* first = x.data + 2 * at * x.depth_stride;
      hn::StoreU(PairsOfLines(first, first + x.depth_stride), WordTag(),
                 reinterpret_cast<uint32_t*>(lines + i * stride));
    }
  }
  if (transposes) TransposeWords(buffer, reinterpret_cast<float*>(to), to_stride / 2);
}

// The same at the edge of an operand: zeros beyond it.
template <bool kAlongDepth, class T>
HWY_INLINE void PackCutSquare(const products::PairSource<T>& x, int64_t indices, int64_t depth, bf16* HWY_RESTRICT to,
                              size_t to_stride) {
  T whole[kLanes * kPairLanes] = {};
  const auto width = static_cast<int64_t>(kPairLanes);
  for (int64_t i = 0; i < indices; i++)
    for (int64_t k = 0; k < depth; k++) whole[i * width + k] = x.data[i * x.index_stride + k * x.depth_stride];
  PackSquare<kAlongDepth>(products::PairSource<T>{whole, width, 1}, to, to_stride);
}

// Both ranges are padded to multiples; to(index, k) is where the square that begins there goes.
template <bool kAlongDepth, class T, class To>
HWY_INLINE void PackSquares(const products::PairSource<T>& x, const products::Range& indices, int64_t index_multiple,
                            const products::Range& depth, size_t to_stride, const To& to) {
  constexpr auto kSide = static_cast<int64_t>(kLanes), kDeep = static_cast<int64_t>(kPairLanes);
  const products::Range all_indices{indices.first, products::round_up(indices.count, index_multiple)};
  const products::Range all_depth{depth.first, products::round_up(depth.count, products::kPairDepth)};
  products::for_each_part(all_indices, kSide, [&](const products::Range& i) HWY_ATTR {
    products::for_each_part(all_depth, kDeep, [&](const products::Range& k) HWY_ATTR {
      const int64_t given_indices = HWY_MIN(kSide, indices.end() - i.first);
      const int64_t given_depth = HWY_MIN(kDeep, depth.end() - k.first);
      const products::PairSource<T> from{x.data + i.first * x.index_stride + k.first * x.depth_stride, x.index_stride,
                                         x.depth_stride};
      if (given_indices == kSide && given_depth == kDeep)
        PackSquare<kAlongDepth>(from, to(i.first, k.first), to_stride);
      else
        PackCutSquare<kAlongDepth>(from, given_indices, given_depth, to(i.first, k.first), to_stride);
    });
  });
}

// Rows of the padded depth.
void PackPairsOfA(const products::Operand& a, const products::Range& rows, const products::Range& depth,
                  const products::PackedOperand& to) {
  const int64_t stride = products::round_up(to.depth.count, products::kPairDepth);
  auto* data = reinterpret_cast<bf16*>(to.data);
  a.visit([&]<class T>(const TensorView<const T, 2>& view) HWY_ATTR {
    const int64_t depth_stride = products::is_contiguous_along(a, 1) ? 1 : a.strides[1];
    if constexpr (!std::is_same_v<T, f16>)  // which multiplies_pairs leaves to others
      PackSquares<true>(products::PairSource<T>{view.data, a.strides[0], depth_stride}, rows, products::kPairRows,
                        depth, static_cast<size_t>(stride), [&](int64_t i, int64_t k) HWY_ATTR {
                          return data + (i - to.first) * stride + (k - to.depth.first);
                        });
  });
}

// Panels, each with the padded depth.
void PackPairsOfB(const products::Operand& b, const products::Range& columns, const products::Range& depth,
                  const products::PackedOperand& to) {
  constexpr int64_t kPairPanel = products::kPairPanel;
  const int64_t padded = products::round_up(to.depth.count, products::kPairDepth);
  auto* data = reinterpret_cast<bf16*>(to.data);
  b.visit([&]<class T>(const TensorView<const T, 2>& view) HWY_ATTR {
    const int64_t depth_stride = products::is_contiguous_along(b, 0) ? 1 : b.strides[0];
    if constexpr (!std::is_same_v<T, f16>)
      PackSquares<false>(products::PairSource<T>{view.data, b.strides[1], depth_stride}, columns,
                         products::kPairColumns, depth, 2 * kPairPanel, [&](int64_t j, int64_t k) HWY_ATTR {
                           const int64_t panel = (j - to.first) / kPairPanel, lane = (j - to.first) % kPairPanel;
                           return data + panel * kPairPanel * padded + (k - to.depth.first) * kPairPanel + 2 * lane;
                         });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(PackPairsOfA);
HWY_EXPORT(PackPairsOfB);

namespace products {
namespace {

// Some rows of c and the columns of one panel: a part of a product. Sums start with c, the bias, both or zeros.
class PanelOfC {
 public:
  PanelOfC(const Product& product, const Range& rows, const Range& columns, const Range& depth)
      : c_(product.c.slice(0, rows.first, rows.count).slice(1, columns.first, columns.count)),
        adds_(depth.first > 0 || product.accumulate),
        bias_(!product.bias.empty() && depth.first == 0 ? product.bias.data() + columns.first : nullptr) {}

  // In place, or, if the columns are not whole vectors, a few rows at a time in a buffer.
  void multiply(const PairMultiplier& multiplier, PairProduct pairs) const {
    if (c_.shape[1] % kPairColumns == 0) return multiply_into(c_, multiplier, pairs);
    const std::int64_t width = round_up(c_.shape[1], kPairColumns);
    for_each_part({0, c_.shape[0]}, kBufferRows, [&](const Range& rows) {
      alignas(64) float memory[kBufferRows * kPairPanel] = {};
      const TensorView<float, 2> buffer(memory, {rows.count, width});
      PairProduct part = pairs;
      part.a += rows.first * pairs.a_stride;
      const PanelOfC some(*this, rows);
      some.copy(some.c_, buffer);
      some.multiply_into(buffer, multiplier, part);
      some.copy(buffer, some.c_);
    });
  }

 private:
  static constexpr std::int64_t kBufferRows = 32;

  PanelOfC(const PanelOfC& whole, const Range& rows)
      : c_(whole.c_.slice(0, rows.first, rows.count)), adds_(whole.adds_), bias_(whole.bias_) {}

  void copy(const TensorView<float, 2>& from, const TensorView<float, 2>& to) const {
    for (std::int64_t i = 0; i < c_.shape[0]; i++) std::copy_n(from[i].data, c_.shape[1], to[i].data);
  }

  void multiply_into(const TensorView<float, 2>& c, const PairMultiplier& multiplier, PairProduct pairs) const {
    for (std::int64_t i = 0; bias_ && i < c.shape[0]; i++)
      for (std::int64_t j = 0; j < c_.shape[1]; j++) c(i, j) = (adds_ ? c(i, j) : 0.0f) + bias_[j];
    pairs.c = c.data;
    pairs.c_stride = c.strides[0];
    pairs.rows = c.shape[0];
    pairs.columns = c.shape[1];
    pairs.adds = adds_ || bias_;
    multiplier(pairs);
  }

  TensorView<float, 2> c_;
  bool adds_;          // to c
  const float* bias_;  // if any
};

void multiply_pair_block(const Product& product, const Block& block, const Range& depth, const PackedOperand& a,
                         const PackedOperand& b) {
  const PairMultiplier multiplier;
  const std::int64_t a_depth = round_up(a.depth.count, kPairDepth), b_depth = round_up(b.depth.count, kPairDepth);
  const auto* a_rows = reinterpret_cast<const bf16*>(a.data) + (block.rows.first - a.first) * a_depth;
  const auto* panels = reinterpret_cast<const bf16*>(b.data) + (depth.first - b.depth.first) * kPairPanel;
  for_each_part(block.columns, kPairPanel, [&](const Range& columns) {
    PanelOfC(product, block.rows, columns, depth)
        .multiply(multiplier, {.a = a_rows,
                               .a_stride = a_depth,
                               .b = panels + (columns.first - b.first) * b_depth,
                               .b_stride = 2 * kPairPanel,
                               .pairs = round_up(depth.count, kPairDepth) / 2});
  });
}

}  // namespace

Kernels pair_kernels() {
  return {.row_unit = kPairRows,
          .column_unit = kPairPanel,
          .depth_unit = kPairDepth,
          .packed_bytes = sizeof(bf16),
          .always_packs_a = true,
          .packed_rows = 192,
          .takes_bf16_a = true,
          .pack_a = PHASOR_DISPATCH(PackPairsOfA),
          .pack_b = PHASOR_DISPATCH(PackPairsOfB),
          .multiply_block = multiply_pair_block};
}

// Not with an f16: rounded to bf16 it would lose digits.
bool multiplies_pairs(const Product& product) {
  const bool narrow =
      product.precision == Precision::bf16 || (product.precision == Precision::storage && product.b.is_bf16);
  return narrow && !product.b.is_f16 && PairMultiplier::available();
}

}  // namespace products
}  // namespace phasor
#endif  // HWY_ONCE
