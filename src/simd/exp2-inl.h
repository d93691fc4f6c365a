// 2^x for softmax.
#if defined(PHASOR_SIMD_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_EXP2_INL_H_
#undef PHASOR_SIMD_EXP2_INL_H_
#else
#define PHASOR_SIMD_EXP2_INL_H_
#endif

#include "simd/polynomial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The larger of the two, x if it is NaN. On x86 the maximum instruction returns its second operand then; elsewhere it
// may return the number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtLeast(D /*d*/, V bound, V x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Max(bound, x);
#else
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#endif
}

// Added to x, it rounds x to a whole number n and leaves n + 101 in the low bits of the sum.
constexpr float kExponentMagic = 12582912.0f + 101.0f;  // 1.5 * 2^23 + 101

// p(f) * 2^n for n >= -101, where `shifted` is n + kExponentMagic: shifted into the exponent that is 2^(n - 26), and 0
// at n = -101. The polynomial carries the factor 2^26, so give coefficients times kExp2Scale.
constexpr float kExp2Scale = 0x1p26f;
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TimesPowerOfTwo(D d, V p, V shifted) {
  const hn::RebindToSigned<D> di;
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

// 2^x for x < 128, to 1.5 ulp and exactly 1 at 0; exactly 0 below -100.5; NaN stays NaN. Hidden scores (-infinity)
// give 0, and no weight is so small that products with it become subnormal, which costs some processors a hundred
// cycles each. Polynomials are minimax, of degree 5: half the cost of softmax is here.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SoftmaxExp2(D d, V x) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  // AVX-512's instructions for x - floor(x) and p * 2^floor(x) save three of ten.
  const V f{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF)};
  const V p = Polynomial(d, f, 0.00186713017f, 0.00901702978f, 0.0557999127f, 0.240164444f, 0.693151295f, 1.0f);
  const __mmask16 not_below = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-100.5f), _CMP_NLT_UQ);
  return V{_mm512_maskz_scalef_ps(not_below, p.raw, x.raw)};
#else
  constexpr float s = kExp2Scale;
  const V bounded = AtLeast(d, hn::Set(d, -101.0f), x), magic = hn::Set(d, kExponentMagic);
  const V shifted = hn::Add(bounded, magic);
  const V f = hn::Sub(bounded, hn::Sub(shifted, magic));
  const V p = Polynomial(d, f, s * 0.00132647273f, s * 0.00967151299f, s * 0.0555073358f, s * 0.240222424f,
                         s * 0.693147004f, s);
  return TimesPowerOfTwo(d, p, shifted);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
