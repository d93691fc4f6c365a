#include "phasor/layers/output_head.h"

#include <algorithm>
#include <cmath>

#include "activation.h"
#include "check_rows.h"
#include "column_sums.h"
#include "row_tasks.h"

namespace phasor {
namespace {

constexpr const char* kLayer = "OutputHead";

// logits = c tanh(scale * logits / c), or scale * logits without c.
void scale_and_cap(double scale, double softcap, TensorView<float, 2> logits) {
  const auto factor = static_cast<float>(softcap > 0 ? scale / softcap : scale), cap = static_cast<float>(softcap);
  for (std::int64_t n = 0; n < logits.shape[0]; n++) {
    float* row = logits.data + n * logits.strides[0];
    detail::for_each_part(logits.shape[1], [&](std::int64_t first, std::size_t count) {
      for (float& logit : std::span(row + first, count))
        logit = cap > 0 ? cap * std::tanh(factor * logit) : factor * logit;
    });
  }
}

// With y = c tanh(scale * l / c): dl = scale (1 - (y/c)^2) dy.
void scale_and_cap_backward(double scale, double softcap, TensorView<const float, 2> y,
                            TensorView<const float, 2> grad_y, TensorView<float, 2> grad) {
  const auto factor = static_cast<float>(scale);
  const auto inverse = static_cast<float>(softcap > 0 ? 1.0 / softcap : 0.0);
  for (std::int64_t n = 0; n < grad.shape[0]; n++)
    for (std::int64_t i = 0; i < grad.shape[1]; i++) {
      const float share = softcap > 0 ? y(n, i) * inverse : 0.0f;
      grad(n, i) = factor * (1.0f - share * share) * grad_y(n, i);
    }
}

}  // namespace

OutputHead::OutputHead(const OutputHeadConfig& config, InitialValues& initial) : config_(config) {
  PHASOR_CHECK(config.channels > 0 && config.vocabulary > 0, kLayer, "channels, vocabulary: ", config.channels, ", ",
               config.vocabulary, ", expected above 0");
  PHASOR_CHECK(std::isfinite(config.scale) && std::isfinite(config.softcap) && config.softcap >= 0, kLayer,
               "scale, softcap: ", config.scale, ", ", config.softcap, ", expected finite, the softcap 0 or more");
  if (!config.tied) weight_ = initial.weight("weight", {config.vocabulary, config.channels}, config.channels);
  if (config.bias) bias_ = Weight("bias", {config.vocabulary});
  if (!config.transform) return;
  dense_.emplace(config.channels, config.channels, config.transform_bias, initial);
  norm_.emplace(config.channels, config.norm);
}

void OutputHead::list_weights(std::string_view prefix, NamedWeights& weights) {
  if (weight_) list_weight(prefix, *weight_, weights);
  if (bias_.size() > 0) list_weight(prefix, bias_, weights);
  if (!dense_) return;
  dense_->list_weights(weight_path(prefix, "dense"), weights);
  norm_->list_weights(weight_path(prefix, "norm"), weights);
}

void OutputHead::forward(TensorView<const float, 2> states, const Weight& embeddings, TensorView<float, 2> logits,
                         Saved* saved, Workspace& workspace) const {
  const Workspace::Scope scope(workspace);
  const Shape<2>& shape = states.shape;
  const auto place = [&](Tensor<float, 2> Saved::*tensor) {
    return saved ? shaped(saved->*tensor, shape) : workspace.take(shape);
  };
  if (saved) saved->x = states;
  TensorView<const float, 2> last = states;
  if (dense_) {
    const TensorView<float, 2> dense = place(&Saved::dense), active = place(&Saved::active);
    const TensorView<float, 2> transformed = place(&Saved::transformed);
    dense_->forward(states, dense);
    detail::activate(config_.activation, dense.data, nullptr, active.data, active.size());
    norm_->forward(active, transformed, saved ? &saved->norm : nullptr);
    last = transformed;
  }
  linear_forward(weight_ ? *weight_ : embeddings, last, logits, bias_.value());
  if (config_.scale != 1.0 || config_.softcap > 0) scale_and_cap(config_.scale, config_.softcap, logits);
  if (saved && config_.softcap > 0) {
    const TensorView<float, 2> kept = shaped(saved->logits, logits.shape);
    for (std::int64_t n = 0; n < logits.shape[0]; n++) std::copy_n(&logits(n, 0), logits.shape[1], &kept(n, 0));
  }
}

void OutputHead::backward(const Saved& saved, Weight& embeddings, TensorView<const float, 2> grad_logits,
                          TensorView<float, 2> grad_states, Workspace& workspace) {
  PHASOR_CHECK(saved.x.shape == grad_states.shape && (!dense_ || saved.transformed.shape() == grad_states.shape),
               kLayer, "saved: of another layer or empty, expected what forward saved");
  const Workspace::Scope scope(workspace);
  TensorView<const float, 2> grad = grad_logits;
  if (config_.scale != 1.0 || config_.softcap > 0) {
    const TensorView<float, 2> scaled = workspace.take(grad_logits.shape);
    scale_and_cap_backward(config_.scale, config_.softcap, saved.logits.view(), grad_logits, scaled);
    grad = scaled;
  }
  if (bias_.size() > 0) detail::add_column_sums(grad, bias_.gradient().data());
  Weight& weight = weight_ ? *weight_ : embeddings;
  if (!dense_) return linear_backward(weight, saved.x, grad, grad_states);
  const TensorView<float, 2> act = workspace.take(grad_states.shape), grad_dense = workspace.take(grad_states.shape);
  linear_backward(weight, saved.transformed.view(), grad, grad_states);
  norm_->backward(saved.norm, grad_states, act, workspace);
  detail::activate_backward(config_.activation,
                            {.x = saved.dense.data(), .grad_act_to_act = act.data, .grad_x = grad_dense.data},
                            act.size());
  dense_->backward(saved.x, grad_dense, grad_states);
}

}  // namespace phasor
