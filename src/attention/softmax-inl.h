// The running softmax of a panel of queries (lanes) over blocks of keys (rows).
#if defined(PHASOR_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_SOFTMAX_INL_H_
#undef PHASOR_ATTENTION_SOFTMAX_INL_H_
#else
#define PHASOR_ATTENTION_SOFTMAX_INL_H_
#endif

#include "base2.h"
#include "products/micro_kernel-inl.h"
#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Softmax of a panel so far: for each lane the largest score, the sum of 2^(score - max), and the factor of sums over
// earlier keys when the largest score grows.
struct SoftmaxLanes {
  float* max;
  float* sum;
  float* factor;
};

// The largest of the rows, lane by lane; four chains per half hide the latency.
HWY_INLINE FloatVec LargestRow(size_t rows, const float* HWY_RESTRICT tile) {
  const FloatTag d;
  FloatVec m0 = hn::Set(d, -detail::kInfinity), m1 = m0, m2 = m0, m3 = m0;
  size_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    m0 = hn::Max(m0, hn::LoadU(d, tile + i * kPanel));
    m1 = hn::Max(m1, hn::LoadU(d, tile + (i + 1) * kPanel));
    m2 = hn::Max(m2, hn::LoadU(d, tile + (i + 2) * kPanel));
    m3 = hn::Max(m3, hn::LoadU(d, tile + (i + 3) * kPanel));
  }
  for (; i < rows; i++) m0 = hn::Max(m0, hn::LoadU(d, tile + i * kPanel));
  return hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
}

// tile = 2^(tile - max) with the new max. While all keys are hidden the max is -infinity, and 0 is subtracted instead.
inline HWY_NOINLINE void SoftmaxStep(size_t vectors, size_t rows, float* HWY_RESTRICT tile, const SoftmaxLanes& lanes) {
  const FloatTag d;
  for (size_t v = 0; v < vectors * kLanes; v += kLanes) {
    const FloatVec before = hn::LoadU(d, lanes.max + v), now = hn::Max(before, LargestRow(rows, tile + v));
    const FloatVec max = hn::IfThenZeroElse(hn::Eq(now, hn::Set(d, -detail::kInfinity)), now);
    const FloatVec factor = SoftmaxExp2(d, hn::Sub(before, max));
    hn::StoreU(now, d, lanes.max + v);
    hn::StoreU(factor, d, lanes.factor + v);
    FloatVec sum = hn::Zero(d);
    for (size_t i = 0; i < rows; i++) {
      float* at = tile + i * kPanel + v;
      const FloatVec weight = SoftmaxExp2(d, hn::Sub(hn::LoadU(d, at), max));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, d, at);
    }
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, lanes.sum + v), sum), d, lanes.sum + v);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
