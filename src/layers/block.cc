#include "phasor/layers/block.h"

#include <algorithm>
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

// to = from, each stream.
void copy(const ConstStreams& from, const Streams& to) {
  std::copy_n(from.mu.data, from.mu.size(), to.mu.data);
  if (to.gaussian()) std::copy_n(from.log_sigma.data, from.log_sigma.size(), to.log_sigma.data);
}

template <class Tensors>
Streams shaped_streams(Tensors& tensors, const Shape<3>& shape, bool gaussian) {
  return {shaped(tensors.mu, shape), gaussian ? shaped(tensors.log_sigma, shape) : TensorView<float, 3>()};
}

Streams take_streams(Workspace& workspace, const Shape<3>& shape, bool gaussian) {
  return {workspace.take(shape), gaussian ? workspace.take(shape) : TensorView<float, 3>()};
}

BlockConfig checked(const char* block, const BlockConfig& config, bool gaussian) {
  PHASOR_CHECK(config.hidden_size >= 1, block, "hidden_size: ", config.hidden_size, ", expected 1 or more");
  PHASOR_CHECK(config.intermediate_size >= 1, block, "intermediate_size: ", config.intermediate_size,
               ", expected 1 or more");
  PHASOR_CHECK(
      !config.parallel_residual ||
          (config.norm_place == NormPlace::before && config.attention_norm && !config.cross_attention),
      block,
      "parallel_residual: true with other norms than before each sublayer, or with cross_attention, expected false");
  const bool plain = !config.qk_norm && !config.attention_bias && !config.attention_scale && !config.cross_attention &&
                     config.gated && !config.mlp_bias && config.hidden_act == Activation::silu;
  PHASOR_CHECK(
      !gaussian || plain, block,
      "config: biases, qk_norm, attention_scale, cross_attention or another feed-forward layer given, expected "
      "none of them");
  return config;
}

// The layers of the standard block, which know one stream, made and called as those of W2 are.
AttentionLayer make_attention(const BlockConfig& c, InitialValues& initial, const AttentionLayer*) {
  return AttentionLayer({.hidden_size = c.hidden_size,
                         .num_attention_heads = c.num_attention_heads,
                         .num_key_value_heads = c.num_key_value_heads,
                         .head_dim = c.head_dim,
                         .attention_bias = c.attention_bias,
                         .output_bias = c.attention_output_bias,
                         .qk_norm = c.qk_norm,
                         .norm_eps = c.norm_eps,
                         .scale = c.attention_scale,
                         .dropout = c.attention_dropout},
                        initial);
}

W2AttentionLayer make_attention(const BlockConfig& c, InitialValues& initial, const W2AttentionLayer*) {
  return W2AttentionLayer(
      {c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.attention_dropout}, initial);
}

FeedForward make_ffn(const BlockConfig& c, InitialValues& initial, const FeedForward*) {
  return FeedForward({c.hidden_size, c.intermediate_size, c.hidden_act, c.gated, c.mlp_bias}, initial);
}

W2FeedForward make_ffn(const BlockConfig& c, InitialValues& initial, const W2FeedForward*) {
  return W2FeedForward(c.hidden_size, c.intermediate_size, initial);
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
                    const AttentionOptions& options, LayerCache& cache, const Streams& y, Workspace& workspace,
                    std::span<const std::int64_t> counts) {
  layer.decode(x.mu, plan, options, cache, y.mu, workspace, counts);
}

void decode_streams(const W2AttentionLayer& layer, const ConstStreams& x, const PlanInput& plan,
                    const AttentionOptions& options, LayerCache& cache, const Streams& y, Workspace& workspace,
                    std::span<const std::int64_t> counts) {
  layer.decode(x, plan, options, cache, y, workspace, counts);
}

void feed(const FeedForward& layer, const ConstStreams& x, const Streams& y, FeedForward::Saved* saved,
          Workspace& workspace) {
  layer.forward(rows("x", x.mu), rows("y", y.mu), saved, workspace);
}

void feed(const W2FeedForward& layer, const ConstStreams& x, const Streams& y, W2FeedForward::Saved* saved,
          Workspace& workspace) {
  layer.forward(x, y, saved, workspace);
}

void feed_backward(FeedForward& layer, const FeedForward::Saved& saved, const ConstStreams& grad_y,
                   const Streams& grad_x, Workspace& workspace) {
  layer.backward(saved, rows("grad_y", grad_y.mu), rows("grad_x", grad_x.mu), workspace);
}

void feed_backward(W2FeedForward& layer, const W2FeedForward::Saved& saved, const ConstStreams& grad_y,
                   const Streams& grad_x, Workspace& workspace) {
  layer.backward(saved, grad_y, grad_x, workspace);
}

// Attention to an encoder's states, for one stream.
KvCache read_states_of(const AttentionLayer& layer, TensorView<const float, 3> states,
                       std::span<const std::int64_t> lengths, CacheStorage storage, Workspace& workspace) {
  return layer.read_states(states, lengths, storage, workspace);
}

void attend_states_of(const AttentionLayer& layer, const ConstStreams& x, const LayerCache& cache, const Streams& y,
                      Workspace& workspace) {
  PHASOR_CHECK(cache.states.has_value(), kLayer, "cache: without an encoder's states, expected them");
  layer.attend_states(x.mu, *cache.states, y.mu, workspace);
}

[[noreturn]] KvCache read_states_of(const W2AttentionLayer&, TensorView<const float, 3>, std::span<const std::int64_t>,
                                    CacheStorage, Workspace&) {
  fail(kLayer, "cross_attention: with W2 scores, expected dot products");
}

[[noreturn]] void attend_states_of(const W2AttentionLayer&, const ConstStreams&, const LayerCache&, const Streams&,
                                   Workspace&) {
  fail(kLayer, "cross_attention: with W2 scores, expected dot products");
}

NormConfig norm_config(const BlockConfig& config) {
  return {.kind = config.norm, .eps = static_cast<float>(config.norm_eps), .bias = config.norm_bias};
}

}  // namespace

StreamsNorm::StreamsNorm(std::int64_t channels, const NormConfig& config, bool gaussian) : mu_(channels, config) {
  if (gaussian) log_sigma_.emplace(channels, config);
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

Sublayer::Sublayer(const BlockConfig& config, bool has_norm, bool gaussian) : gaussian_(gaussian) {
  const NormConfig norm = norm_config(config);
  const bool before = config.norm_place != NormPlace::after;
  if (has_norm && before) before_.emplace(config.hidden_size, norm, gaussian);
  if (has_norm && !before) after_.emplace(config.hidden_size, norm, gaussian);
  if (config.norm_place == NormPlace::around) inside_.emplace(config.hidden_size, norm, gaussian);
}

void Sublayer::list_weights(std::string_view name, NamedWeights& weights) {
  const std::string path = std::string(name) + "_norm";
  if (before_) before_->list_weights(path, weights);
  if (after_) after_->list_weights(path, weights);
}

void Sublayer::list_out_weights(std::string_view name, NamedWeights& weights) {
  if (inside_) inside_->list_weights(std::string(name) + "_out_norm", weights);
}

template <class F>
void Sublayer::forward(const ConstStreams& in, const ConstStreams& base, const Streams& out, Saved* saved,
                       Workspace& workspace, const F& f) const {
  const Shape<3>& shape = in.mu.shape;
  const Workspace::Scope scope(workspace);
  const auto place = [&](SavedStreams Saved::*tensors) {
    return saved ? shaped_streams(saved->*tensors, shape, gaussian_) : take_streams(workspace, shape, gaussian_);
  };
  ConstStreams normed = in;
  if (before_) {
    const Streams to = place(&Saved::normed);
    before_->forward(in, to, saved ? &saved->before : nullptr);
    normed = to;
  }
  const Streams sum = after_ ? place(&Saved::sum) : out;
  if (inside_) {
    const Streams result = place(&Saved::result);
    f(normed, result);
    inside_->forward(result, sum, saved ? &saved->inside : nullptr);
  } else {
    f(normed, sum);
  }
  add(base, sum);
  if (after_) after_->forward(sum, out, saved ? &saved->after : nullptr);
}

template <class F>
void Sublayer::backward(const Saved& saved, const ConstStreams& grad_out, const Streams& grad, Into into,
                        Workspace& workspace, const F& f) {
  const Shape<3>& shape = grad_out.mu.shape;
  const Workspace::Scope scope(workspace);
  ConstStreams grad_sum = grad_out;
  if (after_) {
    const Streams to = take_streams(workspace, shape, gaussian_);
    after_->backward(saved.after, grad_out, to, workspace);
    grad_sum = to;
  }
  ConstStreams grad_result = grad_sum;
  if (inside_) {
    const Streams to = take_streams(workspace, shape, gaussian_);
    inside_->backward(saved.inside, grad_sum, to, workspace);
    grad_result = to;
  }
  const Streams grad_normed = take_streams(workspace, shape, gaussian_);
  f(grad_result, grad_normed);
  const bool has_base = into == Into::add || grad_sum.mu.data == grad.mu.data;
  if (before_) {
    before_->backward(saved.before, grad_normed, grad, workspace, has_base ? Into::add : Into::write);
    if (!has_base) add(grad_sum, grad);
  } else if (has_base) {
    add(grad_normed, grad);
  } else {
    copy(grad_normed, grad);
    add(grad_sum, grad);
  }
}

template <class Attention, class FeedForward>
TransformerBlock<Attention, FeedForward>::TransformerBlock(const BlockConfig& config, InitialValues& initial)
    : config_(checked(kName, config, kGaussian)),
      around_attention_(config, config.attention_norm, kGaussian),
      around_ffn_(config, true, kGaussian),
      attention_(make_attention(config, initial, static_cast<const Attention*>(nullptr))),
      ffn_(make_ffn(config, initial, static_cast<const FeedForward*>(nullptr))) {
  if (!config.cross_attention) return;
  around_cross_attention_.emplace(config, true, kGaussian);
  cross_attention_.emplace(make_attention(config, initial, static_cast<const Attention*>(nullptr)));
}

template <class Attention, class FeedForward>
void TransformerBlock<Attention, FeedForward>::list_weights(std::string_view prefix, NamedWeights& weights) {
  const auto path = [&](const char* name) { return weight_path(prefix, name); };
  around_attention_.list_weights(path("attention"), weights);
  attention_.list_weights(path("attention"), weights);
  if (cross_attention_) {
    around_cross_attention_->list_weights(path("cross_attention"), weights);
    cross_attention_->list_weights(path("cross_attention"), weights);
  }
  around_ffn_.list_weights(path("ffn"), weights);
  ffn_.list_weights(path("ffn"), weights);
  around_attention_.list_out_weights(path("attention"), weights);
  around_ffn_.list_out_weights(path("ffn"), weights);
}

template <class Attention, class FeedForward>
void TransformerBlock<Attention, FeedForward>::check_shapes(const ConstStreams& x, const Streams& y) const {
  const Shape<3>& shape = x.mu.shape;
  PHASOR_CHECK(shape[2] == config_.hidden_size, kName, "x: ", shape_text(shape), ", expected [B, T, ",
               config_.hidden_size, "]");
  check_streams(kName, "x", x, shape, kGaussian);
  check_streams(kName, "y", y, shape, kGaussian);
}

template <class Attention, class FeedForward>
void TransformerBlock<Attention, FeedForward>::forward(const ConstStreams& x, const PlanInput& plan,
                                                       const AttentionOptions& options, const Streams& y, Saved* saved,
                                                       Workspace& workspace, TensorView<float, 4> weights) const {
  check_shapes(x, y);
  PHASOR_CHECK(!cross_attention_, kName, "forward: of a block with cross-attention, expected decode");
  const Shape<3>& shape = x.mu.shape;
  const Workspace::Scope scope(workspace);
  const Streams middle =
      saved ? shaped_streams(saved->middle, shape, kGaussian) : take_streams(workspace, shape, kGaussian);
  around_attention_.forward(x, x, middle, saved ? &saved->around_attention : nullptr, workspace,
                            [&](const ConstStreams& in, const Streams& out) {
                              attend(attention_, in, plan, options, out, saved ? &saved->attention : nullptr, workspace,
                                     weights);
                            });
  around_ffn_.forward(config_.parallel_residual ? x : ConstStreams(middle), middle, y,
                      saved ? &saved->around_ffn : nullptr, workspace, [&](const ConstStreams& in, const Streams& out) {
                        feed(ffn_, in, out, saved ? &saved->ffn : nullptr, workspace);
                      });
}

template <class Attention, class FeedForward>
void TransformerBlock<Attention, FeedForward>::decode(const ConstStreams& x, const PlanInput& plan,
                                                      const AttentionOptions& options, LayerCache& cache,
                                                      const Streams& y, Workspace& workspace,
                                                      std::span<const std::int64_t> counts) const {
  check_shapes(x, y);
  const Shape<3>& shape = x.mu.shape;
  const Workspace::Scope scope(workspace);
  Streams middle = take_streams(workspace, shape, kGaussian);
  around_attention_.forward(x, x, middle, nullptr, workspace, [&](const ConstStreams& in, const Streams& out) {
    decode_streams(attention_, in, plan, options, cache, out, workspace, counts);
  });
  if (cross_attention_) {
    const Streams next = take_streams(workspace, shape, kGaussian);
    around_cross_attention_->forward(middle, middle, next, nullptr, workspace,
                                     [&](const ConstStreams& in, const Streams& out) {
                                       attend_states_of(*cross_attention_, in, cache, out, workspace);
                                     });
    middle = next;
  }
  around_ffn_.forward(config_.parallel_residual ? x : ConstStreams(middle), middle, y, nullptr, workspace,
                      [&](const ConstStreams& in, const Streams& out) { feed(ffn_, in, out, nullptr, workspace); });
}

template <class Attention, class FeedForward>
void TransformerBlock<Attention, FeedForward>::read_states(TensorView<const float, 3> states,
                                                           std::span<const std::int64_t> lengths, CacheStorage storage,
                                                           LayerCache& cache, Workspace& workspace) const {
  PHASOR_CHECK(cross_attention_.has_value(), kName,
               "states: for a block without cross-attention, expected one with it");
  cache.states.emplace(read_states_of(*cross_attention_, states, lengths, storage, workspace));
}

// The gradient of the middle is made in grad_x, and that of x from it in place.
template <class Attention, class FeedForward>
void TransformerBlock<Attention, FeedForward>::backward(const Saved& saved, const ConstStreams& grad_y,
                                                        const Streams& grad_x, PlanGradient* grad_plan,
                                                        Workspace& workspace) {
  PHASOR_CHECK(saved.attention.plan.has_value(), kName, "saved: empty, expected what a forward pass saved");
  const Shape<3>& shape = saved.middle.mu.shape();
  check_streams(kName, "grad_y", grad_y, shape, kGaussian);
  check_streams(kName, "grad_x", grad_x, shape, kGaussian);
  around_ffn_.backward(saved.around_ffn, grad_y, grad_x, Into::write, workspace,
                       [&](const ConstStreams& of_out, const Streams& of_in) {
                         feed_backward(ffn_, saved.ffn, of_out, of_in, workspace);
                       });
  const auto attend_gradient = [&](const ConstStreams& of_out, const Streams& of_in) {
    attend_backward(attention_, saved.attention, of_out, of_in, grad_plan, workspace);
  };
  if (config_.parallel_residual)
    around_attention_.backward(saved.around_attention, grad_y, grad_x, Into::add, workspace, attend_gradient);
  else
    around_attention_.backward(saved.around_attention, grad_x, grad_x, Into::write, workspace, attend_gradient);
}

template class TransformerBlock<AttentionLayer, FeedForward>;
template class TransformerBlock<W2AttentionLayer, W2FeedForward>;

}  // namespace phasor
