#include "cos_sin.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cos_sin.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/sincos-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

template <class D>
HWY_INLINE void CosSinAt(D d, const double* angles, double scale, float* cos, float* sin) {
  const hn::Rebind<float, D> df;
  const auto scales = hn::Set(d, scale);
  auto cosine = hn::Zero(d), sine = hn::Zero(d);
  CosSin(d, hn::LoadU(d, angles), cosine, sine);
  hn::StoreU(hn::DemoteTo(df, hn::Mul(cosine, scales)), df, cos);
  hn::StoreU(hn::DemoteTo(df, hn::Mul(sine, scales)), df, sin);
}

void CosSinOfReducible(const double* angles, size_t count, double scale, float* cos, float* sin) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> d1;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) CosSinAt(d, angles + i, scale, cos + i, sin + i);
  for (; i < count; i++) CosSinAt(d1, angles + i, scale, cos + i, sin + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(CosSinOfReducible);

void cos_sin(std::span<const double> angles, double scale, float* cos, float* sin) {
  bool reducible = true;
  for (const double angle : angles) reducible &= std::fabs(angle) <= HWY_STATIC_DISPATCH(kLargestAngle);
  if (reducible) {
    PHASOR_DISPATCH(CosSinOfReducible)(angles.data(), angles.size(), scale, cos, sin);
    return;
  }
  for (std::size_t i = 0; i < angles.size(); i++) {  // positions past a million: libm reduces any angle
    cos[i] = static_cast<float>(scale * std::cos(angles[i]));
    sin[i] = static_cast<float>(scale * std::sin(angles[i]));
  }
}

}  // namespace phasor
#endif  // HWY_ONCE
