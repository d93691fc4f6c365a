// Masks [B or 1, H or 1, T or 1, S or 1]: which keys a query may see, or a number added to the score, where -infinity
// hides the key.
#ifndef PHASOR_ATTENTION_TERMS_MASK_H_
#define PHASOR_ATTENTION_TERMS_MASK_H_

#include <cstdint>

#include "base2.h"
#include "call.h"
#include "check_shapes.h"

namespace phasor::detail {

struct MaskOption {
  static bool is_given(const AttentionCall& call) {
    return call.options.mask.visible.data != nullptr || call.options.mask.added.data != nullptr;
  }

  static void check(const char* function, const AttentionCall& call) {
    const MaskInput& mask = call.options.mask;
    if (mask.visible.data != nullptr) check_one(function, call, mask.visible);
    if (mask.added.data) check_one(function, call, mask.added);
  }

  static void list_inputs(const AttentionCall& call, List<Extent>& inputs) {
    inputs.push_back(extent("mask", call.options.mask.visible));
    inputs.push_back(extent("mask", call.options.mask.added));
  }

  static void check_gradient(const char* function, const AttentionCall& call, const BackwardOutput& output,
                             List<Extent>& outputs) {
    if (!output.mask.data) return;
    const TensorView<const float, 4>& mask = call.options.mask.added;
    PHASOR_CHECK(mask.data, function, "grad_mask: given without a mask of float, expected both");
    check_output(function, "grad_mask", output.mask, mask.shape, "the shape of mask");
    outputs.push_back(extent("grad_mask", output.mask));
  }

  // The stride of dimension i, 0 where the mask is broadcast.
  template <class View>
  static std::int64_t stride(const View& mask, std::size_t i) {
    return mask.shape[i] == 1 ? 0 : mask.strides[i];
  }
  // The mask's element of a head, a row of q and a key of the sequence.
  template <class View>
  static auto* element(const View& mask, const Sequence& sequence, std::int64_t head, std::int64_t query,
                       std::int64_t key) {
    return mask.data + sequence.batch * stride(mask, 0) + head * stride(mask, 1) + query * stride(mask, 2) +
           (sequence.first_key + key) * stride(mask, 3);
  }

  // to[j] = what is added to the scores of a query and of keys first .. first + count - 1 of the sequence.
  static void read_row(const AttentionCall& call, const Sequence& sequence, std::int64_t head, std::int64_t query,
                       std::int64_t first, std::size_t count, float* to) {
    const MaskInput& mask = call.options.mask;
    if (!mask.added.data) {
      std::fill_n(to, count, 0.0f);
    } else if (const float* from = element(mask.added, sequence, head, query, first); mask.added.shape[3] == 1) {
      std::fill_n(to, count, bounded_bias(*from));
    } else {
      for (std::size_t j = 0; j < count; j++) to[j] = bounded_bias(from[j]);
    }
    if (mask.visible.data != nullptr) {
      const bool* from = element(mask.visible, sequence, head, query, first);
      const auto step = static_cast<std::size_t>(stride(mask.visible, 3));
      for (std::size_t j = 0; j < count; j++) to[j] = from[j * step] ? to[j] : -kInfinity;
    }
  }

 private:
  template <class View>
  static void check_one(const char* function, const AttentionCall& call, const View& mask) {
    const Shape<4> full{call.batch, call.heads, call.queries, call.keys};
    bool fits = true;
    for (std::size_t i = 0; i < 4; i++) fits = fits && (mask.shape[i] == 1 || mask.shape[i] == full[i]);
    PHASOR_CHECK(fits, function, "mask: shape ", shape_text(mask.shape), ", expected ", shape_text(full),
                 " = [B, H, T, S], each dimension so or 1");
    check_rows(function, "mask", mask.shape, mask.strides);
  }
};

}  // namespace phasor::detail
#endif

#if defined(PHASOR_ATTENTION_TERMS_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_TERMS_MASK_INL_H_
#undef PHASOR_ATTENTION_TERMS_MASK_INL_H_
#else
#define PHASOR_ATTENTION_TERMS_MASK_INL_H_
#endif

#include <algorithm>

#include "scratch/scratch.h"
#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

class Mask {
 public:
  Mask(const detail::AttentionCall& call, const detail::Sequence& sequence, detail::Arena& arena)
      : call_(call), sequence_(sequence), given_(detail::MaskOption::is_given(call)) {
    if (!given_) return;
    rows_ = arena.take(kPanel * kMostKeys);
    tile_ = arena.take(kTileSize);
  }

  void Load(const detail::QueryBlock& block) { head_ = block.head; }
  explicit operator bool() const { return given_; }

  // A hidden score becomes -infinity whatever it was, NaN included.
  HWY_NOINLINE void Apply(const TilePlace& place, float* HWY_RESTRICT tile) const {
    const FloatTag d;
    ReadRows(place);
    RowsToPanel(rows_, kMostKeys, place.rows, 1.0f, tile_);
    const FloatVec hidden = hn::Set(d, -detail::kInfinity);
    for (size_t i = 0; i < place.rows * kPanel; i += kLanes) {
      const FloatVec mask = hn::LoadU(d, tile_ + i);
      const FloatVec sum = MulAddOnce(d, mask, detail::kLog2E, hn::LoadU(d, tile + i));
      hn::StoreU(hn::IfThenElse(hn::Eq(mask, hidden), hidden, sum), d, tile + i);
    }
  }

  void ApplyRow(const RowPlace& place, float* HWY_RESTRICT row) const {
    if (!given_) return;
    HWY_ALIGN float mask[kDecodeKeys] = {};
    detail::MaskOption::read_row(call_, sequence_, place.head, place.query, place.first_key, place.keys, mask);
    AddToRow(place.keys, mask, row);
  }

 private:
  // Lanes without a query see nothing.
  void ReadRows(const TilePlace& place) const {
    for (size_t lane = 0; lane < kPanel; lane++) {
      float* to = rows_ + lane * kMostKeys;
      std::fill(to + place.rows, to + WholeSquares(place.rows), 0.0f);
      if (lane < place.panel.count)
        detail::MaskOption::read_row(call_, sequence_, head_, place.panel.first_query + static_cast<int64_t>(lane),
                                     place.first_key, place.rows, to);
      else
        std::fill_n(to, place.rows, -detail::kInfinity);
    }
  }

  const detail::AttentionCall& call_;
  const detail::Sequence& sequence_;
  const bool given_;
  int64_t head_ = 0;
  float* rows_ = nullptr;  // [kPanel][kMostKeys]
  float* tile_ = nullptr;  // [kMostKeys][kPanel]
};

// The gradient of an additive mask is that of the score, added where the mask has the score's element.
class MaskGradient {
 public:
  MaskGradient(const TensorView<float, 4>& gradient, detail::Arena& arena) : gradient_(gradient) {
    if (!gradient.data) return;
    rows_ = arena.take(kPanel * kMostKeys);
    ones_ = arena.take(kPanel);
    std::fill_n(ones_, kPanel, 1.0f);
  }
  explicit operator bool() const { return gradient_.data != nullptr; }

  void Add(const detail::QueryBlock& block, const TilePlace& place, const float* HWY_RESTRICT gradient) {
    PanelToRows(gradient, place.rows, ones_, rows_, kMostKeys);
    for (size_t z = 0; z < place.panel.count; z++) {
      float* HWY_RESTRICT to = detail::MaskOption::element(
          gradient_, *block.sequence, block.head, place.panel.first_query + static_cast<int64_t>(z), place.first_key);
      const float* HWY_RESTRICT from = rows_ + z * kMostKeys;
      if (gradient_.shape[3] == 1)
        for (size_t j = 0; j < place.rows; j++) *to += from[j];
      else
        for (size_t j = 0; j < place.rows; j++) to[j] += from[j];
    }
  }

 private:
  TensorView<float, 4> gradient_;
  float* rows_ = nullptr;  // [kPanel][kMostKeys]
  float* ones_ = nullptr;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
