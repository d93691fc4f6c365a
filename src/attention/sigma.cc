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
void SigmaOfRow(const T* log_variance, T* sigma, size_t count) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto most = hn::Set(d, 88.0f);  // e^88 is the last whole power
    const auto half = hn::Mul(hn::Set(d, 0.5f), LoadFloat(d, log_variance + i));
    StoreFloat(Exp(d, hn::IfThenElse(hn::Gt(half, most), most, half)), d, sigma + i);  // NaN stays NaN
  });
}

template <class T>
void GradientOfRow(const T* sigma, T* grad, size_t count) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    // A gradient of 0 stays 0: that of a hidden key, whose sigma may be NaN.
    const auto half = hn::Mul(hn::Set(d, 0.5f), LoadFloat(d, sigma + i)), g = LoadFloat(d, grad + i);
    StoreFloat(hn::IfThenZeroElse(hn::Eq(g, hn::Zero(d)), hn::Mul(half, g)), d, grad + i);
  });
}

// Exported by name, since HWY_EXPORT takes no template.
void SigmaFloat(const float* from, float* to, size_t count) { SigmaOfRow(from, to, count); }
void SigmaBf16(const bf16* from, bf16* to, size_t count) { SigmaOfRow(from, to, count); }
void SigmaF16(const f16* from, f16* to, size_t count) { SigmaOfRow(from, to, count); }
void GradientFloat(const float* sigma, float* grad, size_t count) { GradientOfRow(sigma, grad, count); }
void GradientBf16(const bf16* sigma, bf16* grad, size_t count) { GradientOfRow(sigma, grad, count); }
void GradientF16(const f16* sigma, f16* grad, size_t count) { GradientOfRow(sigma, grad, count); }

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

template <class T>
using RowKernel = void (*)(const T* from, T* to, std::size_t count);

template <class T>
void for_each_row(const char* function, TensorView<const T, 4> from, const char* name, TensorView<T, 4> to,
                  RowKernel<T> kernel) {
  PHASOR_CHECK(from.shape == to.shape, function, name, ": shape ", shape_text(to.shape), ", expected ",
               shape_text(from.shape));
  PHASOR_CHECK(from.has_contiguous_rows() && to.has_contiguous_rows(), function, name,
               ": the last dimension has gaps, expected contiguous rows");
  detail::for_row_blocks(to.shape, [&](const detail::RowBlock& block) {
    for (std::int64_t i = block.first; i < block.first + block.count; i++)
      kernel(&from(block.b, block.h, i, 0), &to(block.b, block.h, i, 0), static_cast<std::size_t>(to.shape[3]));
  });
}

constexpr const char *kForward = "sigma_forward", *kBackward = "sigma_backward";

}  // namespace

void sigma_forward(TensorView<const float, 4> log_variance, TensorView<float, 4> sigma) {
  for_each_row(kForward, log_variance, "sigma", sigma, PHASOR_DISPATCH(SigmaFloat));
}
void sigma_forward(TensorView<const bf16, 4> log_variance, TensorView<bf16, 4> sigma) {
  for_each_row(kForward, log_variance, "sigma", sigma, PHASOR_DISPATCH(SigmaBf16));
}
void sigma_forward(TensorView<const f16, 4> log_variance, TensorView<f16, 4> sigma) {
  for_each_row(kForward, log_variance, "sigma", sigma, PHASOR_DISPATCH(SigmaF16));
}

void sigma_backward(TensorView<const float, 4> sigma, TensorView<float, 4> grad) {
  for_each_row(kBackward, sigma, "grad", grad, PHASOR_DISPATCH(GradientFloat));
}
void sigma_backward(TensorView<const bf16, 4> sigma, TensorView<bf16, 4> grad) {
  for_each_row(kBackward, sigma, "grad", grad, PHASOR_DISPATCH(GradientBf16));
}
void sigma_backward(TensorView<const f16, 4> sigma, TensorView<f16, 4> grad) {
  for_each_row(kBackward, sigma, "grad", grad, PHASOR_DISPATCH(GradientF16));
}

}  // namespace phasor
#endif  // HWY_ONCE
