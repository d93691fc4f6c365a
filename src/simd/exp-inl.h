// e^x, right to about an ulp also where x is large.
#if defined(PHASOR_SIMD_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_EXP_INL_H_
#undef PHASOR_SIMD_EXP_INL_H_
#else
#define PHASOR_SIMD_EXP_INL_H_
#endif

#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// e^(high + low) for a sum below 88; exactly 0 from -70 down; NaN stays NaN. If the argument is a rounded product, the
// result loses as many digits as the argument has before the point, so the caller gives the rounding error in `low`.
//
// n = round(x / ln 2), r = x - n ln 2, with ln 2 in two parts (Cody, Waite 1980): the first has 9 bits, so that its
// product with n is exact with and without fused multiply-add.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V high, V low) {
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f, kLog2E = 1.44269504f;
  const V magic = hn::Set(d, kExponentMagic);
  const V x = AtLeast(d, hn::Set(d, -101.0f), hn::Mul(hn::Add(high, low), hn::Set(d, kLog2E)));
  const V shifted = hn::Add(x, magic);
  const V n = hn::Sub(shifted, magic);
  const V r = hn::Add(hn::NegMulAdd(n, hn::Set(d, kLn2High), high), hn::NegMulAdd(n, hn::Set(d, kLn2Low), low));
  // Below the least exponent r is not a remainder; the result is p * 0, so p must only stay finite.
  const V remainder = AtLeast(d, hn::Set(d, -1.0f), r);
  const V f = hn::Mul(remainder, hn::Set(d, kLog2E));
  constexpr float s = kExp2Scale;  // minimax for 2^f, |f| <= 1/2
  const V p = Polynomial(d, f, s * 0.000153458124f, s * 0.00133999309f, s * 0.00961848907f, s * 0.0555032864f,
                         s * 0.240226462f, s * 0.693147182f, s);
  return TimesPowerOfTwo(d, p, shifted);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  return Exp(d, x, hn::Zero(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
