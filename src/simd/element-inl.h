// Loads and stores of tensor elements (float, bf16, f16) as float vectors. Highway 1.0.3's own demotions are not
// used where they do not round: its bf16 demotion truncates everywhere, its f16 demotion where the CPU has none.
// Per-target include guard, as in all -inl.h files.
#if defined(PHASOR_SIMD_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_ELEMENT_INL_H_
#undef PHASOR_SIMD_ELEMENT_INL_H_
#else
#define PHASOR_SIMD_ELEMENT_INL_H_
#endif

#include <hwy/highway.h>

#include "phasor/core/dtype.h"

// Whether this target converts f16 in hardware (F16C comes with AVX2).
#undef PHASOR_HARDWARE_F16
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)) || HWY_TARGET == HWY_NEON
#define PHASOR_HARDWARE_F16 1
#else
#define PHASOR_HARDWARE_F16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> LoadFloat(D d, const float* HWY_RESTRICT from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE void StoreFloat(hn::Vec<D> v, D d, float* HWY_RESTRICT to) {
  hn::StoreU(v, d, to);
}

// The 16-bit patterns at `from`, each in a 32-bit lane.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> LoadBits16(D /*d*/, const uint16_t* HWY_RESTRICT from) {
  const hn::RebindToUnsigned<D> du32;
  const hn::Rebind<uint16_t, D> du16;
  return hn::PromoteTo(du32, hn::LoadU(du16, from));
}

template <class D>
HWY_INLINE void StoreBits16(hn::Vec<hn::RebindToUnsigned<D>> bits, D /*d*/, uint16_t* HWY_RESTRICT to) {
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<uint16_t, D> du16;
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, bits)), du16, to);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadFloat(D d, const bf16* HWY_RESTRICT from) {
  return hn::BitCast(d, hn::ShiftLeft<16>(LoadBits16(d, &from->bits)));
}

// The float's bits with the upper 16 rounded to nearest even; the lower 16 are undefined.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundToBf16(D /*d*/, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
}

template <class D>
HWY_INLINE void StoreFloat(hn::Vec<D> v, D d, bf16* HWY_RESTRICT to) {
  StoreBits16(hn::ShiftRight<16>(RoundToBf16(d, v)), d, &to->bits);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadFloat(D d, const int8_t* HWY_RESTRICT from) {
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<int8_t, D> d8;
  return hn::ConvertTo(d, hn::PromoteTo(di32, hn::LoadU(d8, from)));
}

#if PHASOR_HARDWARE_F16

template <class D>
HWY_INLINE hn::Vec<D> LoadFloat(D d, const f16* HWY_RESTRICT from) {
  const hn::Rebind<uint16_t, D> du16;
  const hn::Rebind<hwy::float16_t, D> df16;
  return hn::PromoteTo(d, hn::BitCast(df16, hn::LoadU(du16, &from->bits)));
}

template <class D>
HWY_INLINE void StoreFloat(hn::Vec<D> v, D /*d*/, f16* HWY_RESTRICT to) {
  const hn::Rebind<uint16_t, D> du16;
  const hn::Rebind<hwy::float16_t, D> df16;
  hn::StoreU(hn::BitCast(du16, hn::DemoteTo(df16, v)), du16, &to->bits);
}

#else  // the steps of phasor::f16, in lanes

template <class D>
HWY_INLINE hn::Vec<D> LoadFloat(D d, const f16* HWY_RESTRICT from) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, LoadBits16(d, &from->bits));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(di, 0x8000)));
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fff));
  const auto fraction = hn::ShiftLeft<13>(magnitude);
  const auto normal = hn::Add(fraction, hn::Set(di, 0x38000000));
  const auto subnormal = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f)));
  const auto infinite = hn::Or(fraction, hn::Set(di, 0x7f800000));
  const auto quiet = hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(di, 0x7c00)), hn::Set(di, 0x400000));
  auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x400)), subnormal, normal);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7bff)), hn::Or(infinite, quiet), result);
  return hn::BitCast(d, hn::Or(sign, result));
}

template <class D>
HWY_INLINE void StoreFloat(hn::Vec<D> v, D d, f16* HWY_RESTRICT to) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto sign = hn::BitCast(di, hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000)));
  const auto magnitude = hn::BitCast(di, hn::And(bits, hn::Set(du, 0x7fffffff)));
  const auto top = hn::ShiftRight<13>(magnitude);
  const auto odd = hn::And(top, hn::Set(di, 1));
  const auto normal = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, hn::Set(di, 0xfff - 0x38000000))));
  const auto aligned = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  const auto subnormal = hn::Sub(hn::BitCast(di, aligned), hn::Set(di, 0x3f000000));
  const auto nan = hn::Or(hn::Set(di, 0x7e00), hn::And(top, hn::Set(di, 0x3ff)));
  auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)), subnormal, normal);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x477fffff)), hn::Set(di, 0x7c00), result);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), nan, result);
  StoreBits16(hn::BitCast(du, hn::Or(sign, result)), d, &to->bits);
}

#endif  // PHASOR_HARDWARE_F16

// Calls body(d, i) for i = 0, Lanes(d), ... with full vectors, then with single lanes for the remainder: the tail of
// every elementwise loop, written once.
template <class Body>
HWY_INLINE void ForEachVector(size_t count, const Body& body) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) body(d, i);
  for (; i < count; i++) body(d1, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
