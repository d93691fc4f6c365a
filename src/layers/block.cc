#include "phasor/layers/block.h"

#include <string>

#include "as_rows.h"
#include "elementwise.h"

namespace phasor {
namespace {

constexpr const char* kLayer = "Block";

template <class T>
TensorView<T, 2> rows(const char* name, const TensorView<T, 3>& x) {
  return detail::as_rows(kLayer, name, x);
}

void check_streams(const char* block, const char* name, const ConstStreams& x, const Shape<3>& shape, bool gaussian) {
  PHASOR_CHECK(x.gaussian() == gaussian, block, name,
               gaussian ? ": of one stream, expected two" : ": of two streams, expected one");
  PHASOR_CHECK(x.mu.shape == shape, block, name, ": ", shape_text(x.mu.shape), ", expected ", shape_text(shape));
  PHASOR_CHECK(!gaussian || x.log_sigma.shape == shape, block, name, ".log_sigma: ", shape_text(x.log_sigma.shape),
               ", expected ", shape_text(shape));
}

// to += from, each stream.
void add(const ConstStreams& from, const Streams& to) {
  detail::add_rows(rows("x", from.mu), rows("y", to.mu));
  if (to.gaussian()) detail::add_rows(rows("x", from.log_sigma), rows("y", to.log_sigma));
}

template <class Tensors>
Streams shaped_streams(Tensors& tensors, const Shape<3>& shape, bool gaussian) {
  return {shaped(tensors.mu, shape), gaussian ? shaped(tensors.log_sigma, shape) : TensorView<float, 3>()};
}

Streams take_streams(Workspace& workspace, const Shape<3>& shape, bool gaussian) {
  return {workspace.take(shape), gaussian ? workspace.take(shape) : TensorView<float, 3>()};
}

BlockConfig checked(const char* block, const BlockConfig& config) {
  PHASOR_CHECK(config.hidden_size >= 1, block, "hidden_size: ", config.hidden_size, ", expected 1 or more");
  PHASOR_CHECK(config.intermediate_size >= 1, block, "intermediate_size: ", config.intermediate_size,
               ", expected 1 or more");
  return config;
}

// The layers of the standard block, which know one stream, called as those of W2 are.
AttentionLayer make_attention(const BlockConfig& c, InitialValues& initial, const AttentionLayer*) {
  return AttentionLayer({c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.attention_bias,
                         c.qk_norm, c.rms_norm_eps, c.attention_dropout},
                        initial);
}

W2AttentionLayer make_attention(const BlockConfig& c, InitialValues& initial, const W2AttentionLayer*) {
  PHASOR_CHECK(!c.qk_norm && !c.attention_bias, "W2Block", "config: qk_norm or attention_bias given, expected neither");
  return W2AttentionLayer(
      {c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.attention_dropout}, initial);
}

void attend(const AttentionLayer& layer, const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options,
            const Streams& y, AttentionLayer::Saved* saved, Workspace& workspace, TensorView<float, 4> weights) {
  layer.forward({.query = x.mu}, plan, options, y.mu, saved, workspace, weights);
}

void attend(const W2AttentionLayer& layer, const ConstStreams& x, const PlanInput& plan,
            const AttentionOptions& options, const Streams& y, W2AttentionLayer::Saved* saved, Workspace& workspace,
            TensorView<float, 4> weights) {
  layer.forward(x, plan, options, y, saved, workspace, weights);
}

void attend_backward(AttentionLayer& layer, const AttentionLayer::Saved& saved, const ConstStreams& grad_y,
                     const Streams& grad_x, PlanGradient* grad_plan, Workspace& workspace) {
  layer.backward(saved, grad_y.mu, {.query = grad_x.mu}, grad_plan, workspace);
}

void attend_backward(W2AttentionLayer& layer, const W2AttentionLayer::Saved& saved, const ConstStreams& grad_y,
                     const Streams& grad_x, PlanGradient* grad_plan, Workspace& workspace) {
  layer.backward(saved, grad_y, grad_x, grad_plan, workspace);
}

void decode_streams(const AttentionLayer& layer, const ConstStreams& x, const PlanInput& plan,
                    const AttentionOptions& options, LayerCache& cache, const Streams& y, Workspace& workspace) {
  layer.decode(x.mu, plan, options, cache, y.mu, workspace);
}

void decode_streams(const W2AttentionLayer& layer, const ConstStreams& x, const PlanInput& plan,
                    const AttentionOptions& options, LayerCache& cache, const Streams& y, Workspace& workspace) {
  layer.decode(x, plan, options, cache, y, workspace);
}

void feed(const SwiGlu& layer, const ConstStreams& x, const Streams& y, SwiGlu::Saved* saved, Workspace& workspace) {
  layer.forward(rows("x", x.mu), rows("y", y.mu), saved, workspace);
}

void feed(const W2FeedForward& layer, const ConstStreams& x, const Streams& y, W2FeedForward::Saved* saved,
          Workspace& workspace) {
  layer.forward(x, y, saved, workspace);
}

void feed_backward(SwiGlu& layer, const SwiGlu::Saved& saved, const ConstStreams& grad_y, const Streams& grad_x,
                   Workspace& workspace) {
  layer.backward(saved, rows("grad_y", grad_y.mu), rows("grad_x", grad_x.mu), workspace);
}

void feed_backward(W2FeedForward& layer, const W2FeedForward::Saved& saved, const ConstStreams& grad_y,
                   const Streams& grad_x, Workspace& workspace) {
  layer.backward(saved, grad_y, grad_x, workspace);
}

}  // namespace

StreamsNorm::StreamsNorm(std::int64_t channels, float eps, bool gaussian) : mu_(channels, eps) {
  if (gaussian) log_sigma_.emplace(channels, eps);
}

void StreamsNorm::list_weights(std::string_view prefix, NamedWeights& weights) {
  mu_.list_weights(std::string(prefix) + (log_sigma_ ? "_mu" : ""), weights);
  if (log_sigma_) log_sigma_->list_weights(std::string(prefix) + "_log_sigma", weights);
}

void StreamsNorm::forward(const ConstStreams& x, const Streams& y, Saved* saved) const {
  mu_.forward(rows("x", x.mu), rows("y", y.mu), saved ? &saved->mu : nullptr);
  if (log_sigma_)
    log_sigma_->forward(rows("x", x.log_sigma), rows("y", y.log_sigma), saved ? &saved->log_sigma : nullptr);
}

void StreamsNorm::backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x, Workspace& workspace,
                           Into into) {
  mu_.backward(saved.mu, rows("grad_y", grad_y.mu), rows("grad_x", grad_x.mu), workspace, into);
  if (log_sigma_)
    log_sigma_->backward(saved.log_sigma, rows("grad_y", grad_y.log_sigma), rows("grad_x", grad_x.log_sigma), workspace,
                         into);
}

template <class Attention, class FeedForward>
PreNormBlock<Attention, FeedForward>::PreNormBlock(const BlockConfig& config, InitialValues& initial)
    : config_(checked(kName, config)),
      attention_norm_(config.hidden_size, static_cast<float>(config.rms_norm_eps), kGaussian),
      ffn_norm_(config.hidden_size, static_cast<float>(config.rms_norm_eps), kGaussian),
      attention_(make_attention(config, initial, static_cast<const Attention*>(nullptr))),
      ffn_(config.hidden_size, config.intermediate_size, initial) {}

template <class Attention, class FeedForward>
void PreNormBlock<Attention, FeedForward>::list_weights(std::string_view prefix, NamedWeights& weights) {
  attention_norm_.list_weights(weight_path(prefix, "attention_norm"), weights);
  attention_.list_weights(weight_path(prefix, "attention"), weights);
  ffn_norm_.list_weights(weight_path(prefix, "ffn_norm"), weights);
  ffn_.list_weights(weight_path(prefix, "ffn"), weights);
}

// attend(normed x, result, attention's Saved) is what forward and decode do differently.
template <class Attention, class FeedForward>
template <class Attend>
void PreNormBlock<Attention, FeedForward>::run(const ConstStreams& x, const Streams& y, Saved* saved,
                                               Workspace& workspace, const Attend& attend) const {
  const Shape<3>& shape = x.mu.shape;
  PHASOR_CHECK(shape[2] == config_.hidden_size, kName, "x: ", shape_text(shape), ", expected [B, T, ",
               config_.hidden_size, "]");
  check_streams(kName, "x", x, shape, kGaussian);
  check_streams(kName, "y", y, shape, kGaussian);
  const Workspace::Scope scope(workspace);
  const auto place = [&](StreamTensors Saved::*tensors) {
    return saved ? shaped_streams(saved->*tensors, shape, kGaussian) : take_streams(workspace, shape, kGaussian);
  };
  const Streams normed = place(&Saved::normed), middle = place(&Saved::middle);
  const Streams normed_middle = place(&Saved::normed_middle);
  attention_norm_.forward(x, normed, saved ? &saved->attention_norm : nullptr);
  attend(normed, middle, saved ? &saved->attention : nullptr);
  add(x, middle);
  ffn_norm_.forward(middle, normed_middle, saved ? &saved->ffn_norm : nullptr);
  feed(ffn_, normed_middle, y, saved ? &saved->ffn : nullptr, workspace);
  add(middle, y);
}

template <class Attention, class FeedForward>
void PreNormBlock<Attention, FeedForward>::forward(const ConstStreams& x, const PlanInput& plan,
                                                   const AttentionOptions& options, const Streams& y, Saved* saved,
                                                   Workspace& workspace, TensorView<float, 4> weights) const {
  run(x, y, saved, workspace, [&](const Streams& normed, const Streams& middle, typename Attention::Saved* to) {
    attend(attention_, normed, plan, options, middle, to, workspace, weights);
  });
}

template <class Attention, class FeedForward>
void PreNormBlock<Attention, FeedForward>::decode(const ConstStreams& x, const PlanInput& plan,
                                                  const AttentionOptions& options, LayerCache& cache, const Streams& y,
                                                  Workspace& workspace) const {
  run(x, y, nullptr, workspace, [&](const Streams& normed, const Streams& middle, typename Attention::Saved*) {
    decode_streams(attention_, normed, plan, options, cache, middle, workspace);
  });
}

// With g the gradient of y, that of h is g + norm'(ffn'(g)), and that of x is the same with attention: both are made in
// grad_x.
template <class Attention, class FeedForward>
void PreNormBlock<Attention, FeedForward>::backward(const Saved& saved, const ConstStreams& grad_y,
                                                    const Streams& grad_x, PlanGradient* grad_plan,
                                                    Workspace& workspace) {
  PHASOR_CHECK(saved.attention.plan.has_value(), kName, "saved: empty, expected what a forward pass saved");
  const Shape<3>& shape = saved.middle.mu.shape();
  check_streams(kName, "grad_y", grad_y, shape, kGaussian);
  check_streams(kName, "grad_x", grad_x, shape, kGaussian);
  const Workspace::Scope scope(workspace);
  const Streams inner = take_streams(workspace, shape, kGaussian);
  feed_backward(ffn_, saved.ffn, grad_y, inner, workspace);
  ffn_norm_.backward(saved.ffn_norm, inner, grad_x, workspace);
  add(grad_y, grad_x);
  attend_backward(attention_, saved.attention, grad_x, inner, grad_plan, workspace);
  attention_norm_.backward(saved.attention_norm, inner, grad_x, workspace, Into::add);
}

template class PreNormBlock<AttentionLayer, SwiGlu>;
template class PreNormBlock<W2AttentionLayer, W2FeedForward>;

}  // namespace phasor
