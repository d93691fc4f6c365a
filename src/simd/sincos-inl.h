// Cosine and sine of double angles to about 1e-12, for tables that are stored as float. (Highway 1.0.3's own functions
// are valid only to +-39,000.)
#if defined(PHASOR_SIMD_SINCOS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_SINCOS_INL_H_
#undef PHASOR_SIMD_SINCOS_INL_H_
#else
#define PHASOR_SIMD_SINCOS_INL_H_
#endif

#include "simd/polynomial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Angles up to this size are reduced correctly: the number of quarter revolutions times a 33-bit part of pi/2 is exact.
constexpr double kLargestAngle = 1.5e6;

// For |angle| <= kLargestAngle.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void CosSin(D d, V angle, V& cosine, V& sine) {
  const hn::RebindToUnsigned<D> du;

  // quarter revolutions n = round(angle * 2/pi): adding 1.5 * 2^52 leaves n in the low bits of the sum.
  const V magic = hn::Set(d, 6755399441055744.0);
  const V shifted = hn::MulAdd(angle, hn::Set(d, 0.63661977236758134308), magic);
  const V n = hn::Sub(shifted, magic);
  const auto quadrant = hn::BitCast(du, shifted);

  // r = angle - n pi/2, |r| <= pi/4 (Cody and Waite): pi/2 in two parts of 33 bits and a remainder.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.921fb544p+0), angle);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.0b4611a6p-34), r);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.3198a2e037073p-69), r);

  // Taylor series; the terms left out are below 1e-11 (sine) and 1e-12 (cosine).
  const V z = hn::Mul(r, r);
  const V sine_terms = Polynomial(d, z, -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0);
  const V s = hn::MulAdd(hn::Mul(sine_terms, z), r, r);
  const V c = Polynomial(d, z, 1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0);

  // An odd number of quarter revolutions exchanges the two; bit 1 of n is the sine's sign, bit 1 of n + 1 the cosine's.
  const auto odd = hn::RebindMask(d, hn::TestBit(quadrant, hn::Set(du, 1)));
  const auto sign = hn::Set(du, 2);
  const auto sine_sign = hn::ShiftLeft<62>(hn::And(quadrant, sign));
  const auto cosine_sign = hn::ShiftLeft<62>(hn::And(hn::Add(quadrant, hn::Set(du, 1)), sign));
  sine = hn::Xor(hn::IfThenElse(odd, c, s), hn::BitCast(d, sine_sign));
  cosine = hn::Xor(hn::IfThenElse(odd, s, c), hn::BitCast(d, cosine_sign));
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
