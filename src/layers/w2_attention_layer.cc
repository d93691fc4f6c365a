#include "phasor/layers/w2_attention_layer.h"

#include <array>
#include <variant>

#include "as_rows.h"
#include "in_layer.h"
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
W2Streams<T> by_heads(const TensorView<T, 4>& mu, const TensorView<T, 4>& log_sigma) {
  return {mu.transposed(1, 2), log_sigma.transposed(1, 2)};
}

}  // namespace

// The tensors of a forward pass: in Saved, or in the workspace.
struct W2AttentionLayer::Activations {
  StreamHeads mu, log_sigma;

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
      : mu(in(saved.mu, h, x)), log_sigma(in(saved.log_sigma, h, x)) {}
  Activations(const AttentionHeads& h, const Shape<3>& x, Workspace& workspace)
      : mu(in(workspace, h, x)), log_sigma(in(workspace, h, x)) {}

  W2Streams<float> q() const { return by_heads(mu.q, log_sigma.q); }
  W2Streams<float> k() const { return by_heads(mu.k, log_sigma.k); }
  W2Streams<float> v() const { return by_heads(mu.v, log_sigma.v); }
  W2Streams<float> heads() const { return by_heads(mu.heads, log_sigma.heads); }
};

W2AttentionLayer::W2AttentionLayer(const W2AttentionConfig& config, InitialValues& initial)
    : config_(config),
      heads_(AttentionHeads{config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim}
                 .checked(kLayer)),
      mu_(kLayer, heads_, false, false, initial),
      log_sigma_(kLayer, heads_, false, false, initial) {
  PHASOR_CHECK(heads_.head_dim <= kMostChannels, kLayer, "head_dim: ", heads_.head_dim, ", expected 1 to ",
               kMostChannels);
  PHASOR_CHECK(config.dropout >= 0 && config.dropout < 1, kLayer, "dropout: ", config.dropout,
               ", expected from 0 to less than 1");
  tau_.value()[0] = 1.0f;
}

void W2AttentionLayer::list_weights(std::string_view prefix, NamedWeights& weights) {
  mu_.list_weights(prefix, "_mu", weights);
  log_sigma_.list_weights(prefix, "_log_sigma", weights);
  list_weight(prefix, tau_, weights);
}

void W2AttentionLayer::check_streams(const ConstStreams& x, const ConstStreams& y) const {
  const Shape<3>& shape = x.mu.shape;
  PHASOR_CHECK(shape[2] == heads_.channels, kLayer, "mu: ", shape_text(shape), ", expected [B, T, ", heads_.channels,
               "]");
  const auto check = [&](const char* name, const Shape<3>& given) {
    PHASOR_CHECK(given == shape, kLayer, name, ": ", shape_text(given), ", expected that of mu, ", shape_text(shape));
  };
  check("log_sigma", x.log_sigma.shape);
  check("y.mu", y.mu.shape);
  check("y.log_sigma", y.log_sigma.shape);
}

void W2AttentionLayer::project(const ConstStreams& x, const Activations& to) const {
  mu_.forward({.query = x.mu}, {to.mu.q, to.mu.k, to.mu.v});
  log_sigma_.forward({.query = x.log_sigma}, {to.log_sigma.q, to.log_sigma.k, to.log_sigma.v});
}

void W2AttentionLayer::project_out(const Activations& from, const Streams& y) const {
  mu_.forward_out(from.mu.heads, y.mu);
  log_sigma_.forward_out(from.log_sigma.heads, y.log_sigma);
}

void W2AttentionLayer::forward(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options,
                               const Streams& y, Saved* saved, Workspace& workspace,
                               TensorView<float, 4> weights) const {
  check_streams(x, y);
  const Workspace::Scope scope(workspace);
  const Activations to = saved ? Activations(heads_, x.mu.shape, *saved) : Activations(heads_, x.mu.shape, workspace);
  const AttentionOptions all = detail::call_options(
      {.layer = kLayer, .scaled = false, .dropout = saved ? config_.dropout : 0.0}, options, *plan);
  project(x, to);
  W2Output<float> output{.out = to.heads(), .weights = weights};
  if (saved) output.softmax = shaped(saved->softmax, {x.mu.shape[0], heads_.heads, x.mu.shape[1], 2});
  detail::in_layer(kLayer, [&] { w2_attention_forward(to.q(), to.k(), to.v(), tau(), output, all); });
  if (saved) saved->x = x, saved->plan = plan, saved->options = all;
  project_out(to, y);
}

void W2AttentionLayer::backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x,
                                PlanGradient* grad_plan, Workspace& workspace) {
  PHASOR_CHECK(saved.plan.has_value(), kLayer, "saved: empty, expected what a forward pass saved");
  check_streams(grad_y, grad_x);
  const Shape<3>& shape = saved.x.mu.shape;
  PHASOR_CHECK(grad_y.mu.shape == shape, kLayer, "grad_y: ", shape_text(grad_y.mu.shape), ", expected ",
               shape_text(shape));
  const Workspace::Scope scope(workspace);
  const Activations grad(heads_, shape, workspace);
  const StreamSaved &mu = saved.mu, &log_sigma = saved.log_sigma;
  mu_.backward_out(mu.heads.view(), grad_y.mu, grad.mu.heads);
  log_sigma_.backward_out(log_sigma.heads.view(), grad_y.log_sigma, grad.log_sigma.heads);
  const TensorView<float, 2> grad_bias = detail::bias_gradient(**saved.plan, grad_plan, workspace);
  double grad_tau = 0;
  const auto seen = [](const Tensor<float, 4>& a, const Tensor<float, 4>& b) { return by_heads(a.view(), b.view()); };
  detail::in_layer(kLayer, [&] {
    w2_attention_backward(seen(mu.q, log_sigma.q), seen(mu.k, log_sigma.k), seen(mu.v, log_sigma.v), tau(),
                          {seen(mu.heads, log_sigma.heads), saved.softmax.view(), grad.heads()},
                          {.q = grad.q(), .k = grad.k(), .v = grad.v(), .tau = &grad_tau, .relative_bias = grad_bias},
                          saved.options);
  });
  tau_.gradient()[0] += static_cast<float>(grad_tau);
  detail::add_bias_gradient(kLayer, grad_bias, grad_plan);
  mu_.backward({.query = saved.x.mu}, {grad.mu.q, grad.mu.k, grad.mu.v}, {.query = grad_x.mu});
  log_sigma_.backward({.query = saved.x.log_sigma}, {grad.log_sigma.q, grad.log_sigma.k, grad.log_sigma.v},
                      {.query = grad_x.log_sigma});
}

LayerCache W2AttentionLayer::make_cache(const LayerCacheConfig& config) const {
  PHASOR_CHECK(config.storage == CacheStorage::float32, kLayer, "storage: of 16 or 8 bits, expected float32");
  return {make_kv_cache(config, heads_.key_heads, heads_.head_dim),
          make_kv_cache(config, heads_.key_heads, heads_.head_dim)};
}

void W2AttentionLayer::decode(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options,
                              LayerCache& cache, const Streams& y, Workspace& workspace,
                              std::span<const std::int64_t> counts) const {
  check_streams(x, y);
  PHASOR_CHECK(cache.log_sigma, kLayer, "cache: of one stream, expected one that make_cache made");
  detail::check_decode_options(kLayer, options);
  const Workspace::Scope scope(workspace);
  const Activations to(heads_, x.mu.shape, workspace);
  project(x, to);
  KvCache &mus = cache.mu, &log_sigmas = *cache.log_sigma;
  const detail::CacheRotation rotation = detail::cache_rotation(kLayer, cache.keys(), *plan);
  AttentionOptions all = detail::call_options({.layer = kLayer, .scaled = false}, options, *plan);
  all.causal = true;
  all.k_rotary = rotation.of_all_keys;
  const std::vector<std::int64_t> before(mus.lengths().begin(), mus.lengths().end());
  const W2Streams<const float> k = to.k(), v = to.v();
  detail::in_layer(kLayer, [&] {
    mus.append(k.mu, v.mu, rotation.of_new_keys, counts);
    log_sigmas.append(k.log_sigma, v.log_sigma, {},
                      counts);  // same lengths and shapes: it throws only if the line above does
  });
  all.query_offsets = before;
  all.key_lengths = mus.lengths();
  detail::in_layer(kLayer, [&] {
    detail::or_forget(cache, before, [&] {
      w2_attention_forward(to.q(), {mus.keys<float>(), log_sigmas.keys<float>()},
                           {mus.values<float>(), log_sigmas.values<float>()}, tau(), {.out = to.heads()}, all);
    });
  });
  project_out(to, y);
}

}  // namespace phasor
