// Sums along a row. The order depends only on the count and the width of vectors.
#if defined(PHASOR_SIMD_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_SUM_INL_H_
#undef PHASOR_SIMD_SUM_INL_H_
#else
#define PHASOR_SIMD_SUM_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The sum of term(d, i) over 0 <= i < count: term gives a vector of the terms from i on. Four sums at once hide the
// latency of addition.
template <class Term>
HWY_INLINE float SumOfTerms(size_t count, const Term& term) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::Add(s0, term(d, i));
    s1 = hn::Add(s1, term(d, i + lanes));
    s2 = hn::Add(s2, term(d, i + 2 * lanes));
    s3 = hn::Add(s3, term(d, i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) s0 = hn::Add(s0, term(d, i));
  float rest = 0.0f;
  for (; i < count; i++) rest += hn::GetLane(term(d1, i));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)))) + rest;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
