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

// 2^x for x < 128, to 0.9 ulp; exactly 0 from -126.5 down, so that hidden scores (-infinity) vanish; NaN stays NaN.
// x = n + f with |f| <= 1/2: adding 1.5 * 2^23 + 127 rounds x and leaves n + 127, the exponent of 2^n, in the low bits
// of the sum. The polynomial is the minimax one of degree 6 for 2^f.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  const hn::RebindToSigned<D> di;
  x = hn::Max(hn::Set(d, -127.0f), x);  // in this order Max keeps a NaN of x
  const V magic = hn::Set(d, 12582912.0f + 127.0f);
  const V shifted = hn::Add(x, magic);
  const V f = hn::Sub(x, hn::Sub(shifted, magic));
  V p = hn::Set(d, 0.000153458124f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00133999309f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.00961848907f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555032864f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.240226462f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693147182f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
