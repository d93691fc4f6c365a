// A polynomial in lanes.
#if defined(PHASOR_SIMD_POLYNOMIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_POLYNOMIAL_INL_H_
#undef PHASOR_SIMD_POLYNOMIAL_INL_H_
#else
#define PHASOR_SIMD_POLYNOMIAL_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// first x^n + ... + next[n - 1], from n + 1 coefficients, by Horner's rule.
template <class D, class V = hn::Vec<D>, class... Coefficients>
HWY_INLINE V Polynomial(D d, V x, hn::TFromD<D> first, Coefficients... next) {
  V p = hn::Set(d, first);
  ((p = hn::MulAdd(p, x, hn::Set(d, next))), ...);
  return p;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
