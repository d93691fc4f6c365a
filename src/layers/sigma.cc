#include "sigma.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sigma.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/element-inl.h"
#include "simd/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void SigmaForward(const float* log_variance, float* sigma, size_t count) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto most = hn::Set(d, 88.0f);  // e^88 is the last whole power
    const auto half = hn::Mul(hn::Set(d, 0.5f), hn::LoadU(d, log_variance + i));
    hn::StoreU(Exp(d, hn::IfThenElse(hn::Gt(half, most), most, half)), d, sigma + i);  // NaN stays NaN
  });
}

void SigmaBackward(const float* sigma, float* grad, size_t count) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto half = hn::Mul(hn::Set(d, 0.5f), hn::LoadU(d, sigma + i));
    hn::StoreU(hn::Mul(half, hn::LoadU(d, grad + i)), d, grad + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "row_tasks.h"
#include "simd/dispatch.h"

namespace phasor::detail {
namespace {

HWY_EXPORT(SigmaForward);
HWY_EXPORT(SigmaBackward);

}  // namespace

void sigma_forward(std::span<const float> log_variance, std::span<float> sigma) {
  const auto kernel = PHASOR_DISPATCH(SigmaForward);
  for_each_part(static_cast<std::int64_t>(sigma.size()), [&](std::int64_t first, std::size_t count) {
    kernel(log_variance.data() + first, sigma.data() + first, count);
  });
}

void sigma_backward(std::span<const float> sigma, std::span<float> grad) {
  const auto kernel = PHASOR_DISPATCH(SigmaBackward);
  for_each_part(static_cast<std::int64_t>(grad.size()), [&](std::int64_t first, std::size_t count) {
    kernel(sigma.data() + first, grad.data() + first, count);
  });
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
