#include "adamw.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "adamw.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// No multiply-add is fused, and roots and quotients are rounded right, so that every target gives the same bits.
void AdamWKernel(const detail::AdamWStep& step, const detail::AdamWPart& part) {
  ForEachVector(static_cast<size_t>(part.count), [&](auto d, size_t i) HWY_ATTR {
    const auto gradient = hn::Mul(hn::LoadU(d, part.gradient + i), hn::Set(d, step.gradient_scale));
    auto mean = hn::LoadU(d, part.mean + i);
    mean = hn::Add(mean, hn::Mul(hn::Set(d, step.from_gradient), hn::Sub(gradient, mean)));
    auto square = hn::Mul(hn::LoadU(d, part.square + i), hn::Set(d, step.beta2));
    square = hn::Add(square, hn::Mul(hn::Set(d, step.from_square), hn::Mul(gradient, gradient)));
    const auto root = hn::Add(hn::Div(hn::Sqrt(square), hn::Set(d, step.root_correction)), hn::Set(d, step.eps));
    const auto kept = hn::Mul(hn::LoadU(d, part.value + i), hn::Set(d, step.keep));
    hn::StoreU(hn::Sub(kept, hn::Mul(hn::Set(d, step.step_size), hn::Div(mean, root))), d, part.value + i);
    hn::StoreU(mean, d, part.mean + i);
    hn::StoreU(square, d, part.square + i);
    hn::StoreU(hn::Zero(d), d, part.gradient + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(AdamWKernel);

void adamw_part(const AdamWStep& step, const AdamWPart& part) { PHASOR_DISPATCH(AdamWKernel)(step, part); }

}  // namespace phasor::detail
#endif  // HWY_ONCE
