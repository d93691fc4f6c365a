#include "phasor/layers/attention_layer.h"

#include "as_rows.h"
#include "in_layer.h"
#include "plan_options.h"

namespace phasor {
namespace {

constexpr const char* kLayer = "AttentionLayer";

using detail::as_head_rows;

// [B, T, H, D] memory as the kernel sees it.
template <class T>
TensorView<T, 4> by_heads(const TensorView<T, 4>& x) {
  return x.transposed(1, 2);
}

}  // namespace

// The tensors of a forward pass: in Saved, or in the workspace.
struct AttentionLayer::Activations {
  TensorView<float, 4> q, k, v, normed_q, normed_k, heads;

  Activations(const AttentionHeads& h, bool norms, const Shape<3>& query, const Shape<3>& key, Workspace& workspace) {
    const Shape<4> query_heads{query[0], query[1], h.heads, h.head_dim}, keys{key[0], key[1], h.key_heads, h.head_dim};
    q = workspace.take(query_heads), k = workspace.take(keys), v = workspace.take(keys);
    normed_q = norms ? q : TensorView<float, 4>(), normed_k = norms ? k : TensorView<float, 4>();  // in place
    heads = workspace.take(query_heads);
  }
  Activations(const AttentionHeads& h, bool norms, const Shape<3>& query, const Shape<3>& key, Saved& saved) {
    const Shape<4> query_heads{query[0], query[1], h.heads, h.head_dim}, keys{key[0], key[1], h.key_heads, h.head_dim};
    q = shaped(saved.q, query_heads), k = shaped(saved.k, keys), v = shaped(saved.v, keys);
    if (norms) normed_q = shaped(saved.normed_q, query_heads), normed_k = shaped(saved.normed_k, keys);
    heads = shaped(saved.heads, query_heads);
  }

  const TensorView<float, 4>& seen_q() const { return normed_q.data ? normed_q : q; }
  const TensorView<float, 4>& seen_k() const { return normed_k.data ? normed_k : k; }
};

AttentionLayer::AttentionLayer(const AttentionLayerConfig& config, InitialValues& initial)
    : config_(config),
      heads_(AttentionHeads{config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim}
                 .checked(kLayer)),
      projections_(kLayer, heads_, config.attention_bias, config.output_bias.value_or(config.attention_bias), initial) {
  PHASOR_CHECK(config.dropout >= 0 && config.dropout < 1, kLayer, "dropout: ", config.dropout,
               ", expected from 0 to less than 1");
  if (!config.qk_norm) return;
  const auto eps = static_cast<float>(config.norm_eps);
  q_norm_.emplace(heads_.head_dim, eps);
  k_norm_.emplace(heads_.head_dim, eps);
}

void AttentionLayer::list_weights(std::string_view prefix, NamedWeights& weights) {
  projections_.list_weights(prefix, "_proj", weights);
  if (q_norm_) q_norm_->list_weights(weight_path(prefix, "q_norm"), weights);
  if (k_norm_) k_norm_->list_weights(weight_path(prefix, "k_norm"), weights);
}

void AttentionLayer::check_inputs(const AttentionInputs& inputs, const Shape<3>& y) const {
  const Shape<3>&query = inputs.query.shape, &key = inputs.keys().shape;
  PHASOR_CHECK(query[2] == heads_.channels, kLayer, "query: ", shape_text(query), ", expected [B, T, ", heads_.channels,
               "]");
  PHASOR_CHECK(key[0] == query[0] && key[2] == heads_.channels, kLayer, "key: ", shape_text(key), ", expected [",
               query[0], ", S, ", heads_.channels, "]");
  PHASOR_CHECK(inputs.values().shape == key, kLayer, "value: ", shape_text(inputs.values().shape),
               ", expected the shape of key, ", shape_text(key));
  PHASOR_CHECK(y == query, kLayer, "y: ", shape_text(y), ", expected ", shape_text(query));
}

void AttentionLayer::project(const AttentionInputs& inputs, Activations& to, Saved* saved) const {
  projections_.forward(inputs, {to.q, to.k, to.v});
  if (!q_norm_) return;
  q_norm_->forward(as_head_rows<const float>(to.q), as_head_rows(to.normed_q), saved ? &saved->q_norm : nullptr);
  k_norm_->forward(as_head_rows<const float>(to.k), as_head_rows(to.normed_k), saved ? &saved->k_norm : nullptr);
}

void AttentionLayer::forward(const AttentionInputs& inputs, const PlanInput& plan, const AttentionOptions& options,
                             TensorView<float, 3> y, Saved* saved, Workspace& workspace,
                             TensorView<float, 4> weights) const {
  check_inputs(inputs, y.shape);
  const Workspace::Scope scope(workspace);
  const Shape<3>&query = inputs.query.shape, &key = inputs.keys().shape;
  Activations to = saved ? Activations(heads_, config_.qk_norm, query, key, *saved)
                         : Activations(heads_, config_.qk_norm, query, key, workspace);
  const AttentionOptions all = detail::call_options(
      {.layer = kLayer, .scale = config_.scale, .dropout = saved ? config_.dropout : 0.0}, options, *plan);
  project(inputs, to, saved);
  AttentionOutput<float> output{.out = by_heads(to.heads), .weights = weights};
  if (saved) output.softmax = shaped(saved->softmax, {query[0], heads_.heads, query[1], 2});
  detail::in_layer(
      kLayer, [&] { attention_forward(by_heads(to.seen_q()), by_heads(to.seen_k()), by_heads(to.v), output, all); });
  if (saved) saved->inputs = inputs, saved->plan = plan, saved->options = all;
  projections_.forward_out(to.heads, y);
}

void AttentionLayer::backward(const Saved& saved, TensorView<const float, 3> grad_y,
                              const AttentionInputGradients& grad_inputs, PlanGradient* grad_plan, Workspace& workspace,
                              TensorView<float, 4> grad_mask) {
  PHASOR_CHECK(saved.plan.has_value(), kLayer, "saved: empty, expected what a forward pass saved");
  PHASOR_CHECK(grad_y.shape == saved.inputs.query.shape, kLayer, "grad_y: ", shape_text(grad_y.shape), ", expected ",
               shape_text(saved.inputs.query.shape));
  const Workspace::Scope scope(workspace);
  const TensorView<float, 4> grad_heads = workspace.take(saved.heads.shape());
  const TensorView<float, 4> grad_q = workspace.take(saved.q.shape()), grad_k = workspace.take(saved.k.shape()),
                             grad_v = workspace.take(saved.v.shape());
  const TensorView<float, 2> grad_bias = detail::bias_gradient(**saved.plan, grad_plan, workspace);
  projections_.backward_out(saved.heads.view(), grad_y, grad_heads);
  const auto seen = [&](const Tensor<float, 4>& x, const Tensor<float, 4>& normed) {
    return by_heads(config_.qk_norm ? normed.view() : x.view());
  };
  const AttentionGradients<float> gradients{.q = by_heads(grad_q),
                                            .k = by_heads(grad_k),
                                            .v = by_heads(grad_v),
                                            .mask = grad_mask,
                                            .relative_bias = grad_bias};
  detail::in_layer(kLayer, [&] {
    attention_backward(seen(saved.q, saved.normed_q), seen(saved.k, saved.normed_k), by_heads(saved.v.view()),
                       {by_heads(saved.heads.view()), saved.softmax.view(), by_heads(grad_heads)}, gradients,
                       saved.options);
  });
  detail::add_bias_gradient(kLayer, grad_bias, grad_plan);
  if (q_norm_) backward_norms(saved, grad_q, grad_k, workspace);
  projections_.backward(saved.inputs, {grad_q, grad_k, grad_v}, grad_inputs);
}

void AttentionLayer::backward_norms(const Saved& saved, TensorView<float, 4> grad_q, TensorView<float, 4> grad_k,
                                    Workspace& workspace) {
  q_norm_->backward(saved.q_norm, as_head_rows<const float>(grad_q), as_head_rows(grad_q), workspace);
  k_norm_->backward(saved.k_norm, as_head_rows<const float>(grad_k), as_head_rows(grad_k), workspace);
}

LayerCache AttentionLayer::make_cache(const LayerCacheConfig& config) const {
  return {make_kv_cache(config, heads_.key_heads, heads_.head_dim)};
}

void AttentionLayer::decode(TensorView<const float, 3> x, const PlanInput& plan, const AttentionOptions& options,
                            LayerCache& cache, TensorView<float, 3> y, Workspace& workspace,
                            std::span<const std::int64_t> counts) const {
  check_inputs({.query = x}, y.shape);
  PHASOR_CHECK(!cache.log_sigma, kLayer, "cache: of two streams, expected one that make_cache made");
  detail::check_decode_options(kLayer, options);
  const Workspace::Scope scope(workspace);
  Activations to(heads_, config_.qk_norm, x.shape, x.shape, workspace);
  project({.query = x}, to, nullptr);
  const detail::CacheRotation rotation = detail::cache_rotation(kLayer, cache.keys(), *plan);
  AttentionOptions all = detail::call_options({.layer = kLayer, .scale = config_.scale}, options, *plan);
  all.causal = true;
  all.k_rotary = rotation.of_all_keys;
  const std::vector<std::int64_t> before(cache.lengths().begin(), cache.lengths().end());
  all.query_offsets = before;
  const TensorView<const float, 4> q = by_heads(to.seen_q()), k = by_heads(to.seen_k()), v = by_heads(to.v);
  detail::in_layer(kLayer, [&] {
    cache.mu.append(k, v, rotation.of_new_keys, counts);
    detail::or_forget(cache, before, [&] { attention_forward(q, cache.mu, {.out = by_heads(to.heads)}, all); });
  });
  projections_.forward_out(to.heads, y);
}

KvCache AttentionLayer::read_states(TensorView<const float, 3> states, std::span<const std::int64_t> lengths,
                                    CacheStorage storage, Workspace& workspace) const {
  const std::int64_t batch = states.shape[0], length = states.shape[1];
  PHASOR_CHECK(states.shape[2] == heads_.channels, kLayer, "states: ", shape_text(states.shape), ", expected [B, S, ",
               heads_.channels, "]");
  const Workspace::Scope scope(workspace);
  const Shape<4> keys{batch, length, heads_.key_heads, heads_.head_dim};
  const TensorView<float, 4> k = workspace.take(keys), v = workspace.take(keys);
  projections_.forward_keys(states, k, v);
  KvCache cache =
      make_kv_cache({.batch = batch, .capacity = length, .storage = storage}, heads_.key_heads, heads_.head_dim);
  cache.append(TensorView<const float, 4>(by_heads(k)), TensorView<const float, 4>(by_heads(v)), {}, lengths);
  return cache;
}

void AttentionLayer::attend_states(TensorView<const float, 3> x, const KvCache& states, TensorView<float, 3> y,
                                   Workspace& workspace) const {
  check_inputs({.query = x}, y.shape);
  const Workspace::Scope scope(workspace);
  const Shape<4> shape{x.shape[0], x.shape[1], heads_.heads, heads_.head_dim};
  const TensorView<float, 4> q = workspace.take(shape), heads = workspace.take(shape);
  projections_.forward_queries(x, q);
  detail::in_layer(kLayer, [&] {
    attention_forward(TensorView<const float, 4>(by_heads(q)), states, {.out = by_heads(heads)},
                      {.scale = config_.scale});
  });
  projections_.forward_out(heads, y);
}

}  // namespace phasor
