#include "phasor/core/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "convert.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

template <class From, class To>
void Convert(const From* HWY_RESTRICT from, To* HWY_RESTRICT to, size_t count) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR { StoreFloat(LoadFloat(d, from + i), d, to + i); });
}

// Highway 1.0.3 dispatches plain functions only.
void FloatToBf16(const float* from, bf16* to, size_t count) { Convert(from, to, count); }
void FloatToF16(const float* from, f16* to, size_t count) { Convert(from, to, count); }
void Bf16ToFloat(const bf16* from, float* to, size_t count) { Convert(from, to, count); }
void F16ToFloat(const f16* from, float* to, size_t count) { Convert(from, to, count); }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "phasor/core/check.h"
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(FloatToBf16);
HWY_EXPORT(FloatToF16);
HWY_EXPORT(Bf16ToFloat);
HWY_EXPORT(F16ToFloat);

namespace {

template <class From, class To>
void check_sizes(std::span<const From> from, std::span<To> to) {
  PHASOR_CHECK(from.size() == to.size(), "convert", "to: ", to.size(), " elements, expected ", from.size(),
               " as in from");
}

}  // namespace

void convert(std::span<const float> from, std::span<bf16> to) {
  check_sizes(from, to);
  PHASOR_DISPATCH(FloatToBf16)(from.data(), to.data(), from.size());
}
void convert(std::span<const float> from, std::span<f16> to) {
  check_sizes(from, to);
  PHASOR_DISPATCH(FloatToF16)(from.data(), to.data(), from.size());
}
void convert(std::span<const bf16> from, std::span<float> to) {
  check_sizes(from, to);
  PHASOR_DISPATCH(Bf16ToFloat)(from.data(), to.data(), from.size());
}
void convert(std::span<const f16> from, std::span<float> to) {
  check_sizes(from, to);
  PHASOR_DISPATCH(F16ToFloat)(from.data(), to.data(), from.size());
}

}  // namespace phasor
#endif  // HWY_ONCE
