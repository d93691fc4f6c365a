// 2^x for softmax.
#if defined(PHASOR_SIMD_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_EXP2_INL_H_
#undef PHASOR_SIMD_EXP2_INL_H_
#else
#define PHASOR_SIMD_EXP2_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The larger of the two, x if it is NaN. The processor's own maximum on x86 gives its second operand then; elsewhere it
// may give the number.
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

// 2^(n + f) for n >= -101 and |f| <= 1/2, where `shifted` is n + kExponentMagic: shifted into the exponent that is
// 2^(n - 26), and 0 at n = -101. The polynomial, the minimax one of degree 6 for 2^f, carries the factor 2^26.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2OfParts(D d, V shifted, V f) {
  const hn::RebindToSigned<D> di;
  constexpr float kScale = 0x1p26f;
  V p = hn::Set(d, kScale * 0.000153458124f);
  p = hn::MulAdd(p, f, hn::Set(d, kScale * 0.00133999309f));
  p = hn::MulAdd(p, f, hn::Set(d, kScale * 0.00961848907f));
  p = hn::MulAdd(p, f, hn::Set(d, kScale * 0.0555032864f));
  p = hn::MulAdd(p, f, hn::Set(d, kScale * 0.240226462f));
  p = hn::MulAdd(p, f, hn::Set(d, kScale * 0.693147182f));
  p = hn::MulAdd(p, f, hn::Set(d, kScale * 1.0f));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

// 2^x for x < 128, to 0.9 ulp; exactly 0 from -100.5 down; NaN stays NaN. Hidden scores (-infinity) vanish so, and no
// weight is so small that products with it become subnormal, which costs some processors a hundred cycles each.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  x = AtLeast(d, hn::Set(d, -101.0f), x);
  const V magic = hn::Set(d, kExponentMagic);
  const V shifted = hn::Add(x, magic);
  return Exp2OfParts(d, shifted, hn::Sub(x, hn::Sub(shifted, magic)));
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
