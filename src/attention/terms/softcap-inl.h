// Softcap: score = c tanh(score / c), before biases and masks.
#ifndef PHASOR_ATTENTION_TERMS_SOFTCAP_H_
#define PHASOR_ATTENTION_TERMS_SOFTCAP_H_

#include <cmath>

#include "call.h"
#include "phasor/core/check.h"

namespace phasor::detail {

struct SoftcapOption {
  static void check(const char* function, const AttentionCall& call) {
    const double cap = call.options.softcap;
    PHASOR_CHECK(cap == 0 || (cap >= 1 / kLargestFactor && cap <= kLargestFactor), function, "softcap: ", cap,
                 ", expected a number from ", 1 / kLargestFactor, " to ", kLargestFactor, ", or 0 for none");
    PHASOR_CHECK(cap == 0 || std::fabs(call.scale) / cap <= kLargestFactor, function, "softcap: ", cap,
                 " beside scale ", call.scale, ", expected a ratio of at most ", kLargestFactor);
  }
};

}  // namespace phasor::detail
#endif

#if defined(PHASOR_ATTENTION_TERMS_SOFTCAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_TERMS_SOFTCAP_INL_H_
#undef PHASOR_ATTENTION_TERMS_SOFTCAP_INL_H_
#else
#define PHASOR_ATTENTION_TERMS_SOFTCAP_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "scratch/scratch.h"
#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

class Softcap {
 public:
  // keeps_tanh: for the derivative of the tile that was computed last.
  Softcap(const detail::AttentionCall& call, bool keeps_tanh, detail::Arena& arena)
      : scale_(call.scale), cap_(call.options.softcap) {
    if (cap_ > 0 && keeps_tanh) tanh_ = arena.take(kTileSize);
  }

  explicit operator bool() const { return cap_ > 0; }

  // The factor of q: the scale, and either 1 / cap or log2(e) for scores in base 2.
  float QueryFactor() const { return static_cast<float>(cap_ > 0 ? scale_ / cap_ : scale_ * 1.4426950408889634); }

  // tile[i] = end(i, vector, cap(tile[i])), in base 2.
  template <class End>
  HWY_NOINLINE void Apply(size_t vectors, size_t rows, const End& end, float* HWY_RESTRICT tile) const {
    const FloatTag d;
    const FloatVec factor = hn::Set(d, Factor());
    for (size_t i = 0; i < rows; i++)
      for (size_t v = 0; v < vectors; v++) {
        const size_t at = i * kPanel + v * kLanes;
        const FloatVec t = hn::Tanh(d, hn::LoadU(d, tile + at));
        if (tanh_) hn::StoreU(t, d, tanh_ + at);
        hn::StoreU(end(i, v, hn::Mul(factor, t)), d, tile + at);
      }
  }

  void ApplyRow(size_t keys, float* HWY_RESTRICT row) const {
    const FloatTag d;
    const FloatVec factor = hn::Set(d, Factor());
    for (size_t j = 0; j < keys; j += kLanes)
      hn::StoreU(hn::Mul(factor, hn::Tanh(d, hn::LoadU(d, row + j))), d, row + j);
  }

  // gradient *= 1 - tanh^2: from capped scores to products. A gradient of 0 stays 0: a hidden key may have NaN.
  HWY_NOINLINE void Differentiate(size_t vectors, size_t rows, float* HWY_RESTRICT gradient) const {
    const FloatTag d;
    for (size_t i = 0; i < rows; i++)
      for (size_t v = 0; v < vectors; v++) {
        const size_t at = i * kPanel + v * kLanes;
        const FloatVec t = hn::LoadU(d, tanh_ + at), g = hn::LoadU(d, gradient + at);
        const FloatVec slope = hn::NegMulAdd(t, t, hn::Set(d, 1.0f));
        hn::StoreU(hn::IfThenZeroElse(hn::Eq(g, hn::Zero(d)), hn::Mul(g, slope)), d, gradient + at);
      }
  }

 private:
  float Factor() const { return static_cast<float>(cap_) * detail::kLog2E; }

  double scale_, cap_;
  float* tanh_ = nullptr;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
