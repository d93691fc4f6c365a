// x * c + y with one rounding, also where the processor has no fused multiply-add.
#if defined(PHASOR_SIMD_ONE_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_ONE_ROUNDING_INL_H_
#undef PHASOR_SIMD_ONE_ROUNDING_INL_H_
#else
#define PHASOR_SIMD_ONE_ROUNDING_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_NATIVE_FMA

template <class D, class V = hn::Vec<D>>
HWY_INLINE V MulAddOnce(D d, V x, float c, V y) {
  return hn::MulAdd(x, hn::Set(d, c), y);
}

#else

// x = high + low with 12 bits each, so that their products are exact (Veltkamp).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V HighBits(D d, V x) {
  const V t = hn::Mul(x, hn::Set(d, 4097.0f));
  return hn::Sub(t, hn::Sub(t, x));
}

// The product's rounding error is a float too (Dekker). It is added to y before the product is, which is larger where
// the error matters. Of the largest numbers it is not computed: 4097 times them is infinite.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MulAddOnce(D d, V x, float c, V y) {
  const V factor = hn::Set(d, c), product = hn::Mul(x, factor);
  const V x_high = HighBits(d, x), x_low = hn::Sub(x, x_high);
  const V c_high = HighBits(d, factor), c_low = hn::Sub(factor, c_high);
  const V error = hn::Add(
      hn::Add(hn::Sub(hn::Mul(x_high, c_high), product), hn::Add(hn::Mul(x_high, c_low), hn::Mul(x_low, c_high))),
      hn::Mul(x_low, c_low));
  const auto is_usual = hn::Lt(hn::Abs(x), hn::Set(d, 1e30f));
  return hn::Add(hn::Add(y, hn::IfThenElseZero(is_usual, error)), product);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
