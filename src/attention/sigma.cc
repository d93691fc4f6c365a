#include "phasor/attention/sigma.h"

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

template <class T>
void SigmaOfRow(const T* log_variance, float* sigma, size_t count) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto most = hn::Set(d, 88.0f);  // e^88 is the last whole power
    const auto half = hn::Mul(hn::Set(d, 0.5f), LoadFloat(d, log_variance + i));
    StoreFloat(Exp(d, hn::IfThenElse(hn::Gt(half, most), most, half)), d, sigma + i);  // NaN stays NaN
  });
}

template <class T>
void GradientOfRow(const float* sigma, const float* grad, T* to, size_t count) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    // A gradient of 0 stays 0: that of a hidden key, whose sigma may be NaN.
    const auto half = hn::Mul(hn::Set(d, 0.5f), LoadFloat(d, sigma + i)), g = LoadFloat(d, grad + i);
    StoreFloat(hn::IfThenZeroElse(hn::Eq(g, hn::Zero(d)), hn::Mul(half, g)), d, to + i);
  });
}

// Exported by name, since HWY_EXPORT takes no template.
void SigmaFloat(const float* from, float* to, size_t count) { SigmaOfRow(from, to, count); }
void SigmaBf16(const bf16* from, float* to, size_t count) { SigmaOfRow(from, to, count); }
void SigmaF16(const f16* from, float* to, size_t count) { SigmaOfRow(from, to, count); }
void GradientFloat(const float* sigma, const float* grad, float* to, size_t n) { GradientOfRow(sigma, grad, to, n); }
void GradientBf16(const float* sigma, const float* grad, bf16* to, size_t n) { GradientOfRow(sigma, grad, to, n); }
void GradientF16(const float* sigma, const float* grad, f16* to, size_t n) { GradientOfRow(sigma, grad, to, n); }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "phasor/core/check.h"
#include "simd/dispatch.h"
#include "w2_lowering.h"

namespace phasor {

HWY_EXPORT(SigmaFloat);
HWY_EXPORT(SigmaBf16);
HWY_EXPORT(SigmaF16);
HWY_EXPORT(GradientFloat);
HWY_EXPORT(GradientBf16);
HWY_EXPORT(GradientF16);

namespace {

constexpr const char *kForward = "sigma_forward", *kBackward = "sigma_backward";

template <class T, class U>
void check_like(const char* function, const char* name, const TensorView<T, 4>& x, const TensorView<U, 4>& like) {
  PHASOR_CHECK(x.shape == like.shape, function, name, ": shape ", shape_text(x.shape), ", expected ",
               shape_text(like.shape));
  PHASOR_CHECK(x.has_contiguous_rows() && like.has_contiguous_rows(), function, name,
               ": the last dimension has gaps, expected contiguous rows");
}

// Calls body(b, h, i) for every row.
template <class Body>
void for_each_row(const Shape<4>& shape, const Body& body) {
  detail::for_row_blocks(shape, [&](const detail::RowBlock& block) {
    for (std::int64_t i = block.first; i < block.first + block.count; i++) body(block.b, block.h, i);
  });
}

template <class T>
void forward_rows(const TensorView<const T, 4>& log_variance, const TensorView<float, 4>& sigma,
                  void (*kernel)(const T*, float*, std::size_t)) {
  check_like(kForward, "sigma", sigma, log_variance);
  for_each_row(sigma.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    kernel(&log_variance(b, h, i, 0), &sigma(b, h, i, 0), static_cast<std::size_t>(sigma.shape[3]));
  });
}

template <class T>
void backward_rows(const TensorView<const float, 4>& sigma, const TensorView<const float, 4>& grad,
                   const TensorView<T, 4>& to, void (*kernel)(const float*, const float*, T*, std::size_t)) {
  check_like(kBackward, "grad", grad, sigma);
  check_like(kBackward, "to", to, sigma);
  for_each_row(sigma.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    kernel(&sigma(b, h, i, 0), &grad(b, h, i, 0), &to(b, h, i, 0), static_cast<std::size_t>(sigma.shape[3]));
  });
}

}  // namespace

void sigma_forward(TensorView<const float, 4> log_variance, TensorView<float, 4> sigma) {
  forward_rows(log_variance, sigma, PHASOR_DISPATCH(SigmaFloat));
}
void sigma_forward(TensorView<const bf16, 4> log_variance, TensorView<float, 4> sigma) {
  forward_rows(log_variance, sigma, PHASOR_DISPATCH(SigmaBf16));
}
void sigma_forward(TensorView<const f16, 4> log_variance, TensorView<float, 4> sigma) {
  forward_rows(log_variance, sigma, PHASOR_DISPATCH(SigmaF16));
}

void sigma_backward(TensorView<const float, 4> sigma, TensorView<float, 4> grad) {
  backward_rows<float>(sigma, grad, grad, PHASOR_DISPATCH(GradientFloat));
}
void sigma_backward(TensorView<const float, 4> sigma, TensorView<const float, 4> grad, TensorView<bf16, 4> to) {
  backward_rows(sigma, grad, to, PHASOR_DISPATCH(GradientBf16));
}
void sigma_backward(TensorView<const float, 4> sigma, TensorView<const float, 4> grad, TensorView<f16, 4> to) {
  backward_rows(sigma, grad, to, PHASOR_DISPATCH(GradientF16));
}

}  // namespace phasor
#endif  // HWY_ONCE
