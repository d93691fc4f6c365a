#include "phasor/layers/norm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "norm.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "norm_rows.h"
#include "simd/element-inl.h"
#include "simd/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

struct RowMoments {
  float mean, inverse;
};

template <class T>
HWY_INLINE RowMoments MomentsOfRow(const detail::NormSettings& norm, const T* x) {
  const auto channels = static_cast<size_t>(norm.channels);
  const auto count = static_cast<float>(norm.channels);
  float mean = 0.0f;
  if (norm.centred) mean = SumOfTerms(channels, [=](auto d, size_t i) HWY_ATTR { return LoadFloat(d, x + i); }) / count;
  const float squares = SumOfTerms(channels, [=](auto d, size_t i) HWY_ATTR {
    const auto centred = hn::Sub(LoadFloat(d, x + i), hn::Set(d, mean));
    return hn::Mul(centred, centred);
  });
  return {mean, 1.0f / std::sqrt(squares / count + norm.eps)};
}

template <class T>
HWY_INLINE void NormRow(const detail::NormSettings& norm, const T* x, RowMoments row, T* y) {
  const float* weight = norm.weight;
  const float* bias = norm.bias;
  [[maybe_unused]] const bool rounds_before = norm.rounds_before;
  ForEachVector(static_cast<size_t>(norm.channels), [=](auto d, size_t i) HWY_ATTR {
    auto v = hn::Mul(hn::Sub(LoadFloat(d, x + i), hn::Set(d, row.mean)), hn::Set(d, row.inverse));
    if constexpr (!std::is_same_v<T, float>)
      if (rounds_before) {  // by way of y, which has the type
        StoreFloat(v, d, y + i);
        v = LoadFloat(d, y + i);
      }
    v = hn::Mul(v, hn::LoadU(d, weight + i));
    if (bias) v = hn::Add(v, hn::LoadU(d, bias + i));
    StoreFloat(v, d, y + i);
  });
}

template <class T>
void NormRows(const detail::NormSettings& norm, const detail::NormForward<T>& job) {
  for (int64_t n = 0; n < job.rows; n++) {
    const T* x = job.x + n * job.x_stride;
    const RowMoments row = MomentsOfRow(norm, x);
    NormRow(norm, x, row, job.y + n * job.y_stride);
    if (job.mean) job.mean[n] = row.mean;
    if (job.inverse) job.inverse[n] = row.inverse;
  }
}

void NormRowsFloat(const detail::NormSettings& norm, const detail::NormForward<float>& job) { NormRows(norm, job); }
void NormRowsBf16(const detail::NormSettings& norm, const detail::NormForward<bf16>& job) { NormRows(norm, job); }
void NormRowsF16(const detail::NormSettings& norm, const detail::NormForward<f16>& job) { NormRows(norm, job); }

// With z = (x - m) * inverse and g = grad_y * weight: grad_x = inverse * (g - mean(g) - z * mean(g z)), where mean(g)
// is there only if m is.
HWY_INLINE void NormRowGradient(const detail::NormSettings& norm, const detail::NormBackward& job, const float* x,
                                const float* grad_y, RowMoments row, float* grad_x) {
  const auto channels = static_cast<size_t>(norm.channels);
  const auto count = static_cast<float>(norm.channels);
  const float* weight = norm.weight;
  const auto normalised = [=](auto d, size_t i) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, row.mean)), hn::Set(d, row.inverse));
  };
  const auto scaled = [=](auto d, size_t i)
                          HWY_ATTR { return hn::Mul(hn::LoadU(d, grad_y + i), hn::LoadU(d, weight + i)); };
  const float along =
      SumOfTerms(channels, [=](auto d, size_t i) HWY_ATTR { return hn::Mul(scaled(d, i), normalised(d, i)); }) / count;
  const float mean = norm.centred ? SumOfTerms(channels, scaled) / count : 0.0f;
  ForEachVector(channels, [&](auto d, size_t i) HWY_ATTR {
    const auto z = normalised(d, i);
    const auto from = hn::LoadU(d, grad_y + i);
    const auto inner = hn::NegMulAdd(z, hn::Set(d, along), hn::Sub(scaled(d, i), hn::Set(d, mean)));
    const auto to = hn::Mul(inner, hn::Set(d, row.inverse));
    hn::StoreU(hn::MulAdd(from, z, hn::LoadU(d, job.grad_weight + i)), d, job.grad_weight + i);
    if (job.grad_bias) hn::StoreU(hn::Add(from, hn::LoadU(d, job.grad_bias + i)), d, job.grad_bias + i);
    hn::StoreU(job.adds ? hn::Add(to, hn::LoadU(d, grad_x + i)) : to, d, grad_x + i);
  });
}

void NormRowsBackward(const detail::NormSettings& norm, const detail::NormBackward& job) {
  std::fill_n(job.grad_weight, norm.channels, 0.0f);
  if (job.grad_bias) std::fill_n(job.grad_bias, norm.channels, 0.0f);
  for (int64_t n = 0; n < job.rows; n++)
    NormRowGradient(norm, job, job.x + n * job.x_stride, job.grad_y + n * job.grad_y_stride,
                    {job.mean ? job.mean[n] : 0.0f, job.inverse[n]}, job.grad_x + n * job.grad_x_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "check_rows.h"
#include "column_sums.h"
#include "phasor/core/parallel.h"
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(NormRowsFloat);
HWY_EXPORT(NormRowsBf16);
HWY_EXPORT(NormRowsF16);
HWY_EXPORT(NormRowsBackward);

namespace {

const char* name_of(NormKind kind) { return kind == NormKind::rms ? "RmsNorm" : "LayerNorm"; }

// Rows per task: enough work for a thread, and few enough tasks that their gradient sums are small compared with x.
std::int64_t rows_of_task(std::int64_t channels) { return std::max<std::int64_t>(32, (1 << 15) / channels); }

Weight ones(const char* layer, std::int64_t channels) {
  PHASOR_CHECK(channels > 0, layer, "channels: ", channels, ", expected above 0");
  Weight weight("weight", {channels});
  std::fill(weight.value().begin(), weight.value().end(), 1.0f);
  return weight;
}

detail::NormSettings settings_of(const NormConfig& config, const Weight& weight, const Weight& bias) {
  return {.weight = weight.value().data(),
          .bias = bias.size() > 0 ? bias.value().data() : nullptr,
          .channels = weight.size(),
          .eps = config.eps,
          .centred = config.kind == NormKind::layer,
          .rounds_before = config.kind == NormKind::rms && config.rounding == NormRounding::before_weight};
}

auto kernel_for(const float* /*element*/) { return PHASOR_DISPATCH(NormRowsFloat); }
auto kernel_for(const bf16* /*element*/) { return PHASOR_DISPATCH(NormRowsBf16); }
auto kernel_for(const f16* /*element*/) { return PHASOR_DISPATCH(NormRowsF16); }

template <class T>
void norm_forward(const char* layer, const detail::NormSettings& norm, const TensorView<const T, 2>& x,
                  const TensorView<T, 2>& y, NormSaved* saved) {
  detail::check_rows(layer, "x", x, detail::kAnyCount, norm.channels);
  detail::check_rows(layer, "y", y, x.shape[0], norm.channels);
  const std::int64_t rows = x.shape[0], block = rows_of_task(norm.channels);
  float *mean = nullptr, *inverse = nullptr;
  if constexpr (std::is_same_v<T, float>)
    if (saved) {
      saved->x = x;
      if (norm.centred) mean = shaped(saved->mean, {rows}).data;
      inverse = shaped(saved->inverse, {rows}).data;
    }
  const auto kernel = kernel_for(x.data);
  parallel_for((rows + block - 1) / block, [&](std::int64_t task) {
    const std::int64_t first = task * block;
    kernel(norm, {.x = x.data + first * x.strides[0],
                  .y = y.data + first * y.strides[0],
                  .x_stride = x.strides[0],
                  .y_stride = y.strides[0],
                  .rows = std::min(block, rows - first),
                  .mean = mean ? mean + first : nullptr,
                  .inverse = inverse ? inverse + first : nullptr});
  });
}

void check_backward(const char* layer, const detail::NormSettings& norm, const NormSaved& saved,
                    const TensorView<const float, 2>& grad_y, const TensorView<float, 2>& grad_x) {
  const std::int64_t rows = saved.x.shape[0];
  PHASOR_CHECK(saved.x.shape[1] == norm.channels && saved.inverse.size() == rows, layer,
               "saved: of another layer or empty, expected what forward saved");
  detail::check_rows(layer, "grad_y", grad_y, rows, norm.channels);
  detail::check_rows(layer, "grad_x", grad_x, rows, norm.channels);
}

// Each task sums the gradients of weight and bias over its rows; then these sums are added up.
void norm_backward(const char* layer, const detail::NormSettings& norm, const NormSaved& saved,
                   const TensorView<const float, 2>& grad_y, const TensorView<float, 2>& grad_x, Into into,
                   Workspace& workspace, float* grad_weight, float* grad_bias) {
  check_backward(layer, norm, saved, grad_y, grad_x);
  const std::int64_t rows = saved.x.shape[0], block = rows_of_task(norm.channels), tasks = (rows + block - 1) / block;
  const Workspace::Scope scope(workspace);
  const TensorView<float, 2> weight_sums = workspace.take(Shape<2>{tasks, norm.channels});
  const TensorView<float, 2> bias_sums = workspace.take(Shape<2>{grad_bias ? tasks : 0, norm.channels});
  const auto kernel = PHASOR_DISPATCH(NormRowsBackward);
  parallel_for(tasks, [&](std::int64_t task) {
    const std::int64_t first = task * block;
    kernel(norm, {.x = saved.x.data + first * saved.x.strides[0],
                  .grad_y = grad_y.data + first * grad_y.strides[0],
                  .grad_x = grad_x.data + first * grad_x.strides[0],
                  .x_stride = saved.x.strides[0],
                  .grad_y_stride = grad_y.strides[0],
                  .grad_x_stride = grad_x.strides[0],
                  .rows = std::min(block, rows - first),
                  .mean = norm.centred ? saved.mean.data() + first : nullptr,
                  .inverse = saved.inverse.data() + first,
                  .grad_weight = &weight_sums(task, 0),
                  .grad_bias = grad_bias ? &bias_sums(task, 0) : nullptr,
                  .adds = into == Into::add});
  });
  detail::add_column_sums(weight_sums, grad_weight);
  if (grad_bias) detail::add_column_sums(bias_sums, grad_bias);
}

}  // namespace

Norm::Norm(std::int64_t channels, const NormConfig& config)
    : config_(config), weight_(ones(name_of(config.kind), channels)) {
  PHASOR_CHECK(config.eps >= 0 && std::isfinite(config.eps), name_of(config.kind), "eps: ", config.eps,
               ", expected 0 or above");
  if (config.kind == NormKind::layer && config.bias) bias_ = Weight("bias", {channels});
}

void Norm::list_weights(std::string_view prefix, NamedWeights& weights) {
  list_weight(prefix, weight_, weights);
  if (bias_.size() > 0) list_weight(prefix, bias_, weights);
}

void Norm::forward(TensorView<const float, 2> x, TensorView<float, 2> y, Saved* saved) const {
  norm_forward(name_of(config_.kind), settings_of(config_, weight_, bias_), x, y, saved);
}

void Norm::forward(TensorView<const bf16, 2> x, TensorView<bf16, 2> y) const {
  norm_forward(name_of(config_.kind), settings_of(config_, weight_, bias_), x, y, nullptr);
}

void Norm::forward(TensorView<const f16, 2> x, TensorView<f16, 2> y) const {
  norm_forward(name_of(config_.kind), settings_of(config_, weight_, bias_), x, y, nullptr);
}

void Norm::backward(const Saved& saved, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                    Workspace& workspace, Into into) {
  norm_backward(name_of(config_.kind), settings_of(config_, weight_, bias_), saved, grad_y, grad_x, into, workspace,
                weight_.gradient().data(), bias_.size() > 0 ? bias_.gradient().data() : nullptr);
}

}  // namespace phasor
#endif  // HWY_ONCE
