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

void SwiGluForward(const float* gate, const float* up, float* act, size_t count) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(Silu(d, hn::LoadU(d, gate + i)).value, hn::LoadU(d, up + i)), d, act + i);
  });
}

void SwiGluBackward(const detail::SwiGluGradient& arrays, size_t count) {
  const detail::SwiGluGradient a = arrays;
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto silu = Silu(d, hn::LoadU(d, a.gate + i));
    const auto up = hn::LoadU(d, a.up + i);
    const auto grad = hn::LoadU(d, a.grad_act_to_act + i);
    hn::StoreU(hn::Mul(hn::Mul(grad, up), silu.slope), d, a.grad_gate + i);
    hn::StoreU(hn::Mul(grad, silu.value), d, a.grad_up + i);
    hn::StoreU(hn::Mul(silu.value, up), d, a.grad_act_to_act + i);
  });
}

template <class Gelu>
HWY_INLINE void GeluForward(const float* x, float* act, size_t count, const Gelu& activate) {
  ForEachVector(count,
                [=](auto d, size_t i) HWY_ATTR { hn::StoreU(activate(d, hn::LoadU(d, x + i)).value, d, act + i); });
}

template <class Gelu>
HWY_INLINE void GeluBackward(const detail::GeluGradient& arrays, size_t count, const Gelu& activate) {
  const detail::GeluGradient a = arrays;
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto activated = activate(d, hn::LoadU(d, a.x + i));
    hn::StoreU(hn::Mul(hn::LoadU(d, a.grad_act_to_act + i), activated.slope), d, a.grad_x + i);
    hn::StoreU(activated.value, d, a.grad_act_to_act + i);
  });
}

void GeluErfForward(const float* x, float* act, size_t count) {
  GeluForward(x, act, count, [](auto d, auto v) HWY_ATTR { return GeluErf(d, v); });
}
void GeluTanhForward(const float* x, float* act, size_t count) {
  GeluForward(x, act, count, [](auto d, auto v) HWY_ATTR { return GeluTanh(d, v); });
}
void GeluErfBackward(const detail::GeluGradient& arrays, size_t count) {
  GeluBackward(arrays, count, [](auto d, auto v) HWY_ATTR { return GeluErf(d, v); });
}
void GeluTanhBackward(const detail::GeluGradient& arrays, size_t count) {
  GeluBackward(arrays, count, [](auto d, auto v) HWY_ATTR { return GeluTanh(d, v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "row_tasks.h"
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(SwiGluForward);
HWY_EXPORT(SwiGluBackward);
HWY_EXPORT(GeluErfForward);
HWY_EXPORT(GeluTanhForward);
HWY_EXPORT(GeluErfBackward);
HWY_EXPORT(GeluTanhBackward);

void swiglu(const float* gate, const float* up, float* act, std::int64_t count) {
  const auto kernel = PHASOR_DISPATCH(SwiGluForward);
  for_each_part(count, [&](std::int64_t i, std::size_t part) { kernel(gate + i, up + i, act + i, part); });
}

void swiglu_backward(const SwiGluGradient& a, std::int64_t count) {
  const auto kernel = PHASOR_DISPATCH(SwiGluBackward);
  for_each_part(count, [&](std::int64_t i, std::size_t part) {
    kernel({a.gate + i, a.up + i, a.grad_act_to_act + i, a.grad_gate + i, a.grad_up + i}, part);
  });
}

void gelu(Gelu form, const float* x, float* act, std::int64_t count) {
  const auto kernel = form == Gelu::erf ? PHASOR_DISPATCH(GeluErfForward) : PHASOR_DISPATCH(GeluTanhForward);
  for_each_part(count, [&](std::int64_t i, std::size_t part) { kernel(x + i, act + i, part); });
}

void gelu_backward(Gelu form, const GeluGradient& a, std::int64_t count) {
  const auto kernel = form == Gelu::erf ? PHASOR_DISPATCH(GeluErfBackward) : PHASOR_DISPATCH(GeluTanhBackward);
  for_each_part(count, [&](std::int64_t i, std::size_t part) {
    kernel({a.x + i, a.grad_act_to_act + i, a.grad_x + i}, part);
  });
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
