#include "activation.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "activation.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/activation-inl.h"
#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Calls use(function), where function(d, v) gives value and slope.
template <class Use>
HWY_INLINE void WithActivation(Activation f, const Use& use) {
  switch (f) {
    case Activation::silu:
      return use([](auto d, auto v) HWY_ATTR { return Silu(d, v); });
    case Activation::gelu:
      return use([](auto d, auto v) HWY_ATTR { return GeluErf(d, v); });
    case Activation::gelu_tanh:
      return use([](auto d, auto v) HWY_ATTR { return GeluTanh(d, v); });
    case Activation::relu:
      return use([](auto d, auto v) HWY_ATTR { return Relu(d, v); });
  }
}

void Activate(Activation f, const float* x, const float* up, float* act, size_t count) {
  WithActivation(f, [=](auto function) HWY_ATTR {
    if (up != nullptr)
      ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
        hn::StoreU(hn::Mul(function(d, hn::LoadU(d, x + i)).value, hn::LoadU(d, up + i)), d, act + i);
      });
    else
      ForEachVector(count,
                    [=](auto d, size_t i) HWY_ATTR { hn::StoreU(function(d, hn::LoadU(d, x + i)).value, d, act + i); });
  });
}

template <class Function>
HWY_INLINE void BackwardAlone(const detail::ActivationGradient& a, size_t count, const Function& function) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto activated = function(d, hn::LoadU(d, a.x + i));
    hn::StoreU(hn::Mul(hn::LoadU(d, a.grad_act_to_act + i), activated.slope), d, a.grad_x + i);
    hn::StoreU(activated.value, d, a.grad_act_to_act + i);
  });
}

template <class Function>
HWY_INLINE void BackwardGated(const detail::ActivationGradient& a, size_t count, const Function& function) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto activated = function(d, hn::LoadU(d, a.x + i));
    const auto up = hn::LoadU(d, a.up + i);
    const auto grad = hn::LoadU(d, a.grad_act_to_act + i);
    hn::StoreU(hn::Mul(hn::Mul(grad, up), activated.slope), d, a.grad_x + i);
    hn::StoreU(hn::Mul(grad, activated.value), d, a.grad_up + i);
    hn::StoreU(hn::Mul(activated.value, up), d, a.grad_act_to_act + i);
  });
}

void ActivateBackward(Activation f, const detail::ActivationGradient& arrays, size_t count) {
  const detail::ActivationGradient a = arrays;
  WithActivation(f, [=](auto function) HWY_ATTR {
    if (a.up != nullptr)
      BackwardGated(a, count, function);
    else
      BackwardAlone(a, count, function);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "row_tasks.h"
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(Activate);
HWY_EXPORT(ActivateBackward);

void activate(Activation f, const float* x, const float* up, float* act, std::int64_t count) {
  const auto kernel = PHASOR_DISPATCH(Activate);
  for_each_part(count,
                [&](std::int64_t i, std::size_t part) { kernel(f, x + i, up ? up + i : nullptr, act + i, part); });
}

void activate_backward(Activation f, const ActivationGradient& a, std::int64_t count) {
  const auto kernel = PHASOR_DISPATCH(ActivateBackward);
  for_each_part(count, [&](std::int64_t i, std::size_t part) {
    kernel(
        f,
        {a.x + i, a.up ? a.up + i : nullptr, a.grad_act_to_act + i, a.grad_x + i, a.grad_up ? a.grad_up + i : nullptr},
        part);
  });
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
