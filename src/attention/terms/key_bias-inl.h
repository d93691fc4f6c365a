// A number for each key, added to its scores: [B or 1, H or G or 1, S], for each head of q or of k. -infinity hides the
// key.
#ifndef PHASOR_ATTENTION_TERMS_KEY_BIAS_H_
#define PHASOR_ATTENTION_TERMS_KEY_BIAS_H_

#include <cstdint>

#include "base2.h"
#include "call.h"
#include "check_shapes.h"
#include "terms/gradient_sums.h"

namespace phasor::detail {

struct KeyBiasOption {
  static void check(const char* function, const AttentionCall& call) {
    const TensorView<const float, 3>& bias = call.options.key_bias;
    if (!bias.data) return;
    const Shape<3>& shape = bias.shape;
    PHASOR_CHECK((shape[0] == 1 || shape[0] == call.batch) &&
                     (shape[1] == 1 || shape[1] == call.key_heads || shape[1] == call.heads) && shape[2] == call.keys,
                 function, "key_bias: shape ", shape_text(shape), ", expected [", call.batch, " or 1, ", call.heads,
                 " or ", call.key_heads, " or 1, ", call.keys, "] = [B or 1, H or G or 1, S]");
    check_rows(function, "key_bias", shape, bias.strides);
  }

  static void list_inputs(const AttentionCall& call, List<Extent>& inputs) {
    inputs.push_back(extent("key_bias", call.options.key_bias));
  }

  static void check_gradient(const char* function, const AttentionCall& call, const BackwardOutput& output,
                             List<Extent>& outputs) {
    const TensorView<const float, 3>& bias = call.options.key_bias;
    check_option_gradient(function, "grad_key_bias", output.key_bias, bias.data, bias.shape, outputs);
  }
  static TensorView<float, 3> gradient(const BackwardOutput& output) { return output.key_bias; }

  // A copy by bounded_bias, which the kernels read.
  static void prepare(AttentionCall& call) {
    const TensorView<const float, 3>& bias = call.options.key_bias;
    if (!bias.data) return;
    call.key_bias = ScratchZeros<float, 3>(bias.shape);
    for (std::int64_t b = 0; b < bias.shape[0]; b++)
      for (std::int64_t g = 0; g < bias.shape[1]; g++)
        for (std::int64_t j = 0; j < bias.shape[2]; j++) call.key_bias(b, g, j) = bounded_bias(bias(b, g, j));
  }

  // The biases that a head of q adds to the keys of a sequence, or nullptr.
  static const float* row(const AttentionCall& call, const Sequence& sequence, std::int64_t head) {
    const ScratchZeros<float, 3>& bias = call.key_bias;
    if (bias.empty()) return nullptr;
    return &bias(bias.shape()[0] == 1 ? 0 : sequence.batch, head_row(call, bias.shape()[1], head), sequence.first_key);
  }
};

using KeyBiasSums = GradientSums<KeyBiasOption>;

}  // namespace phasor::detail
#endif

#if defined(PHASOR_ATTENTION_TERMS_KEY_BIAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_TERMS_KEY_BIAS_INL_H_
#undef PHASOR_ATTENTION_TERMS_KEY_BIAS_INL_H_
#else
#define PHASOR_ATTENTION_TERMS_KEY_BIAS_INL_H_
#endif

#include <algorithm>

#include "scratch/scratch.h"
#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

class KeyBias {
 public:
  KeyBias(const detail::AttentionCall& call, const detail::Sequence& sequence) : call_(call), sequence_(sequence) {}

  void Load(const detail::QueryBlock& block) { bias_ = detail::KeyBiasOption::row(call_, sequence_, block.head); }
  explicit operator bool() const { return bias_ != nullptr; }

  // Added to row i of a tile that begins with key `first`, while its products are still in registers. Without a bias it
  // reads zeros.
  class Rows {
   public:
    Rows(const KeyBias& term, int64_t first) {
      if (term) data_ = term.bias_ + first, step_ = 1;
    }
    HWY_INLINE FloatVec operator()(size_t i, size_t /*v*/, FloatVec score) const {
      const FloatTag d;
      return MulAddOnce(d, hn::Set(d, data_[i * step_]), detail::kLog2E, score);
    }

   private:
    static constexpr float kZero = 0.0f;
    const float* data_ = &kZero;
    size_t step_ = 0;
  };

  // A bias of -infinity hides the key whatever its score was, NaN included.
  void Hide(const TilePlace& place, float* HWY_RESTRICT tile) const {
    const FloatTag d;
    for (size_t i = 0; i < place.rows; i++) {
      if (bias_[place.first_key + static_cast<int64_t>(i)] != -detail::kInfinity) continue;
      for (size_t v = 0; v < kVectors; v++)
        hn::StoreU(hn::Set(d, -detail::kInfinity), d, tile + i * kPanel + v * kLanes);
    }
  }

  void ApplyRow(const RowPlace& place, float* HWY_RESTRICT row) const {
    if (call_.key_bias.empty()) return;
    const float* bias = detail::KeyBiasOption::row(call_, sequence_, place.head);
    HWY_ALIGN float padded[kDecodeKeys] = {};
    std::copy_n(bias + place.first_key, place.keys, padded);
    AddToRow(place.keys, padded, row);
  }

 private:
  const detail::AttentionCall& call_;
  const detail::Sequence& sequence_;
  const float* bias_ = nullptr;  // by key of the sequence
};

// The sum over queries of the gradients of scores.
class KeyBiasGradient {
 public:
  KeyBiasGradient(const detail::Sequence& sequence, detail::KeyBiasSums& sums, detail::Arena& arena)
      : sequence_(sequence), sums_(sums) {
    if (sums.values.empty()) return;
    lanes_ = arena.take(Size());
    std::fill_n(lanes_, Size(), 0.0f);
  }
  explicit operator bool() const { return lanes_ != nullptr; }

  HWY_NOINLINE void Add(const TilePlace& place, const float* HWY_RESTRICT gradient) {
    const FloatTag d;
    float* HWY_RESTRICT to = lanes_ + static_cast<size_t>(place.first_key) * kLanes;
    for (size_t i = 0; i < place.rows; i++, to += kLanes) {
      FloatVec sum = hn::LoadU(d, to);
      for (size_t v = 0; v < place.panel.vectors; v++)
        sum = hn::Add(sum, hn::LoadU(d, gradient + i * kPanel + v * kLanes));
      hn::StoreU(sum, d, to);
    }
  }

  // After all queries of a head.
  void EndHead(int64_t head) {
    double* to = sums_.row(head) + sequence_.first_key;
    for (int64_t j = 0; j < sequence_.keys; j++) {
      const float* lanes = lanes_ + static_cast<size_t>(j) * kLanes;
      float sum = 0.0f;
      for (size_t z = 0; z < kLanes; z++) sum += lanes[z];
      to[j] += static_cast<double>(sum);
    }
    std::fill_n(lanes_, Size(), 0.0f);
  }

 private:
  size_t Size() const { return static_cast<size_t>(sequence_.keys) * kLanes; }

  const detail::Sequence& sequence_;
  detail::KeyBiasSums& sums_;
  float* lanes_ = nullptr;  // [keys of the sequence][kLanes]: still to be added over the lanes
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
