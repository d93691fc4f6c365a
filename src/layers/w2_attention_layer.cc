#include "phasor/layers/w2_attention_layer.h"

#include <array>
#include <variant>

#include "as_rows.h"
#include "in_layer.h"
#include "phasor/attention/sigma.h"
#include "plan_options.h"

namespace phasor {
namespace {

constexpr const char* kLayer = "W2AttentionLayer";
constexpr std::int64_t kMostChannels = 256;  // of a head: the kernel has both streams side by side

// One stream's heads, [B, T, H, D] and [B, T, G, D].
struct StreamHeads {
  TensorView<float, 4> q, k, v, heads;
};

// [B, T, H, D] memory of both streams, as the kernel sees it.
template <class T>
W2Streams<T> by_heads(const TensorView<T, 4>& mean, const TensorView<T, 4>& spread) {
  return {mean.transposed(1, 2), spread.transposed(1, 2)};
}

}  // namespace

// The tensors of a forward pass: in Saved, or in the workspace.
struct W2AttentionLayer::Activations {
  StreamHeads mean, log_variance;

  template <class Take>
  static StreamHeads stream(const AttentionHeads& h, const Shape<3>& x, const Take& take) {
    const Shape<4> queries{x[0], x[1], h.heads, h.head_dim}, keys{x[0], x[1], h.key_heads, h.head_dim};
    return {take(0, queries), take(1, keys), take(2, keys), take(3, queries)};
  }
  static StreamHeads in(StreamSaved& saved, const AttentionHeads& h, const Shape<3>& x) {
    const std::array<Tensor<float, 4>*, 4> tensors{&saved.q, &saved.k, &saved.v, &saved.heads};
    return stream(h, x, [&](std::size_t i, const Shape<4>& shape) { return shaped(*tensors[i], shape); });
  }
  static StreamHeads in(Workspace& workspace, const AttentionHeads& h, const Shape<3>& x) {
    return stream(h, x, [&](std::size_t, const Shape<4>& shape) { return workspace.take(shape); });
  }

  Activations(const AttentionHeads& h, const Shape<3>& x, Saved& saved)
      : mean(in(saved.mean, h, x)), log_variance(in(saved.log_variance, h, x)) {}
  Activations(const AttentionHeads& h, const Shape<3>& x, Workspace& workspace)
      : mean(in(workspace, h, x)), log_variance(in(workspace, h, x)) {}

  W2Streams<float> q() const { return by_heads(mean.q, log_variance.q); }
  W2Streams<float> k() const { return by_heads(mean.k, log_variance.k); }
  W2Streams<float> v() const { return by_heads(mean.v, log_variance.v); }
  W2Streams<float> heads() const { return by_heads(mean.heads, log_variance.heads); }
};

W2AttentionLayer::W2AttentionLayer(const W2AttentionConfig& config, InitialValues& initial)
    : config_(config),
      heads_(AttentionHeads{config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim}
                 .checked(kLayer)),
      mean_(kLayer, heads_, false, initial),
      log_variance_(kLayer, heads_, false, initial) {
  PHASOR_CHECK(heads_.head_dim <= kMostChannels, kLayer, "head_dim: ", heads_.head_dim, ", expected 1 to ",
               kMostChannels);
  PHASOR_CHECK(config.dropout >= 0 && config.dropout < 1, kLayer, "dropout: ", config.dropout,
               ", expected from 0 to less than 1");
  tau_.value()[0] = 1.0f;
}

void W2AttentionLayer::list_weights(std::string_view prefix, NamedWeights& weights) {
  mean_.list_weights(prefix, "_mu", weights);
  log_variance_.list_weights(prefix, "_log_sigma", weights);
  list_weight(prefix, tau_, weights);
}

void W2AttentionLayer::check_streams(const ConstStreams& x, const ConstStreams& y) const {
  const Shape<3>& shape = x.mean.shape;
  PHASOR_CHECK(shape[2] == heads_.channels, kLayer, "mean: ", shape_text(shape), ", expected [B, T, ", heads_.channels,
               "]");
  const auto check = [&](const char* name, const Shape<3>& given) {
    PHASOR_CHECK(given == shape, kLayer, name, ": ", shape_text(given), ", expected that of mean, ", shape_text(shape));
  };
  check("log_variance", x.log_variance.shape);
  check("y.mean", y.mean.shape);
  check("y.log_variance", y.log_variance.shape);
}

void W2AttentionLayer::project(const ConstStreams& x, const Activations& to) const {
  mean_.forward({.query = x.mean}, {to.mean.q, to.mean.k, to.mean.v});
  log_variance_.forward({.query = x.log_variance}, {to.log_variance.q, to.log_variance.k, to.log_variance.v});
  for (const TensorView<float, 4>& x_sigma : {to.log_variance.q, to.log_variance.k}) sigma_forward(x_sigma, x_sigma);
}

void W2AttentionLayer::project_out(const Activations& from, const Streams& y) const {
  mean_.forward_out(from.mean.heads, y.mean);
  log_variance_.forward_out(from.log_variance.heads, y.log_variance);
}

void W2AttentionLayer::forward(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options,
                               const Streams& y, Saved* saved, Workspace& workspace,
                               TensorView<float, 4> weights) const {
  check_streams(x, y);
  const Workspace::Scope scope(workspace);
  const Activations to =
      saved ? Activations(heads_, x.mean.shape, *saved) : Activations(heads_, x.mean.shape, workspace);
  const AttentionOptions all = detail::call_options(
      {.layer = kLayer, .scaled = false, .dropout = saved ? config_.dropout : 0.0}, options, *plan);
  project(x, to);
  W2Output<float> output{.out = to.heads(), .weights = weights};
  if (saved) output.lse = shaped(saved->lse, {x.mean.shape[0], heads_.heads, x.mean.shape[1]});
  detail::in_layer(kLayer, [&] { w2_attention_forward(to.q(), to.k(), to.v(), tau(), output, all); });
  if (saved) saved->x = x, saved->plan = plan, saved->options = all;
  project_out(to, y);
}

void W2AttentionLayer::backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x,
                                PlanGradient* grad_plan, Workspace& workspace) {
  PHASOR_CHECK(saved.plan.has_value(), kLayer, "saved: empty, expected what a forward pass saved");
  check_streams(grad_y, grad_x);
  const Shape<3>& shape = saved.x.mean.shape;
  PHASOR_CHECK(grad_y.mean.shape == shape, kLayer, "grad_y: ", shape_text(grad_y.mean.shape), ", expected ",
               shape_text(shape));
  const Workspace::Scope scope(workspace);
  const Activations grad(heads_, shape, workspace);
  const StreamSaved &mean = saved.mean, &spread = saved.log_variance;
  mean_.backward_out(mean.heads.view(), grad_y.mean, grad.mean.heads);
  log_variance_.backward_out(spread.heads.view(), grad_y.log_variance, grad.log_variance.heads);
  const TensorView<float, 2> grad_bias = detail::bias_gradient(**saved.plan, grad_plan, workspace);
  double grad_tau = 0;
  const auto seen = [](const Tensor<float, 4>& a, const Tensor<float, 4>& b) { return by_heads(a.view(), b.view()); };
  detail::in_layer(kLayer, [&] {
    w2_attention_backward(seen(mean.q, spread.q), seen(mean.k, spread.k), seen(mean.v, spread.v), tau(),
                          {seen(mean.heads, spread.heads), saved.lse.view(), grad.heads()},
                          {.q = grad.q(), .k = grad.k(), .v = grad.v(), .tau = &grad_tau, .relative_bias = grad_bias},
                          saved.options);
  });
  tau_.gradient()[0] += static_cast<float>(grad_tau);
  detail::add_bias_gradient(kLayer, grad_bias, grad_plan);
  sigma_backward(spread.q.view(), grad.log_variance.q);
  sigma_backward(spread.k.view(), grad.log_variance.k);
  mean_.backward({.query = saved.x.mean}, {grad.mean.q, grad.mean.k, grad.mean.v}, {.query = grad_x.mean});
  log_variance_.backward({.query = saved.x.log_variance},
                         {grad.log_variance.q, grad.log_variance.k, grad.log_variance.v},
                         {.query = grad_x.log_variance});
}

LayerCache W2AttentionLayer::make_cache(const LayerCacheConfig& config) const {
  PHASOR_CHECK(config.storage == CacheStorage::float32, kLayer, "storage: of 16 bits, expected float32");
  return {make_kv_cache(config, heads_.key_heads, heads_.head_dim),
          make_kv_cache(config, heads_.key_heads, heads_.head_dim)};
}

void W2AttentionLayer::decode(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options,
                              LayerCache& cache, const Streams& y, Workspace& workspace) const {
  check_streams(x, y);
  PHASOR_CHECK(cache.spread, kLayer, "cache: of one stream, expected one that make_cache made");
  detail::check_decode_options(kLayer, options);
  const Workspace::Scope scope(workspace);
  const Activations to(heads_, x.mean.shape, workspace);
  project(x, to);
  auto &means = std::get<KvCache<float>>(cache.mean), &spreads = std::get<KvCache<float>>(*cache.spread);
  const detail::CacheRotation rotation = detail::cache_rotation(kLayer, cache.keys(), *plan);
  AttentionOptions all = detail::call_options({.layer = kLayer, .scaled = false}, options, *plan);
  all.causal = true;
  all.rotate_k = rotation.of_all_keys;
  const W2Streams<const float> k = to.k(), v = to.v();
  detail::in_layer(kLayer, [&] {
    means.append(k.mean, v.mean, rotation.of_new_keys);
    spreads.append(k.spread, v.spread);  // same lengths and shapes: it throws only if the line above does
  });
  std::vector<std::int64_t> offsets;
  for (const std::int64_t length : means.lengths()) offsets.push_back(length - x.mean.shape[1]);
  all.query_offsets = offsets;
  all.key_lengths = means.lengths();
  detail::in_layer(kLayer, [&] {
    detail::or_forget(cache, x.mean.shape[1], [&] {
      w2_attention_forward(to.q(), {means.keys(), spreads.keys()}, {means.values(), spreads.values()}, tau(),
                           {.out = to.heads()}, all);
    });
  });
  project_out(to, y);
}

}  // namespace phasor
