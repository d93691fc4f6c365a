// Checks of attention and layers: shapes, order, masks, weights, the cache, and gradients by finite differences.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <type_traits>

#include "check.h"
#include "phasor/core/random.h"
#include "phasor/layers/block.h"
#include "phasor/position/alibi.h"
#include "phasor/position/encoding.h"
#include "phasor/position/rope.h"

namespace phasor::tool {
namespace {

using Rows = Tensor<float, 3>;

Rows random_rows(const Shape<3>& shape, std::uint64_t seed, float mean = 0.0f, float deviation = 1.0f) {
  Rows x(shape);
  Philox(seed).fill_normal(x, mean, deviation);
  return x;
}

std::string text_of(const Shape<3>& shape) {
  std::ostringstream text;
  text << shape_text(shape);
  return text.str();
}

double largest_difference(const Rows& a, const Rows& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.size(); i++)
    largest = std::max(largest, std::fabs(static_cast<double>(a.data()[i]) - b.data()[i]));
  return largest;
}

bool all_finite(const Rows& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

PositionPlan rope_plan(std::int64_t head_dim, std::int64_t tokens, std::int64_t first = 0) {
  PositionPlan plan;
  plan.rotate_q = rotary_table({.head_dim = head_dim}, consecutive_positions(tokens, first));
  return plan;
}

// ---- the W2 transformer (Wasserstein-2 attention between Gaussian tokens) ----

constexpr BlockConfig kQuickStart{.hidden_size = 512, .num_attention_heads = 8, .intermediate_size = 2048};

struct Gaussians {
  Rows mu, log_sigma;

  Gaussians(const Shape<3>& shape, std::uint64_t seed)
      : mu(random_rows(shape, seed)), log_sigma(random_rows(shape, seed + 1, -1.0f, 0.3f)) {}
  explicit Gaussians(const Shape<3>& shape) : mu(shape), log_sigma(shape) {}
  ConstStreams view() const { return {mu.view(), log_sigma.view()}; }
  Streams view() { return {mu.view(), log_sigma.view()}; }
  bool finite() const { return all_finite(mu) && all_finite(log_sigma); }
  std::string text() const { return text_of(mu.shape()) + (finite() ? " finite" : " NOT FINITE") + ", twice"; }
};

void check_w2_forward(std::vector<Check>& checks) {
  const Gaussians x({2, 64, 512}, 1);
  Gaussians y(x.mu.shape());
  InitialValues initial(42);
  Workspace workspace;
  const PositionPlan plan = rope_plan(64, 64);
  const W2AttentionLayer attention({.hidden_size = 512, .num_attention_heads = 8}, initial);
  attention.forward(x.view(), plan, {}, y.view(), nullptr, workspace);
  checks.push_back(equal("W2 attention forward: both streams", y.text(), "[2, 64, 512] finite, twice"));
  const W2Block block(kQuickStart, initial);
  block.forward(x.view(), plan, {}, y.view(), nullptr, workspace);
  checks.push_back(equal("W2 block forward: both streams", y.text(), "[2, 64, 512] finite, twice"));
}

// The slope of sum(y * direction) along all weights at once, by the gradient and by a central difference.
struct Slopes {
  double by_gradient = 0, by_difference = 0;
};

template <class AnyBlock>
Slopes slopes_of(const BlockConfig& config) {
  constexpr double kStep = 1e-3;
  const Shape<3> shape{2, 9, config.hidden_size};
  InitialValues initial(3);
  AnyBlock block(config, initial);
  const Gaussians x(shape, 5), direction(shape, 7);
  const auto streams = [](const Gaussians& g) {
    return AnyBlock::kGaussian ? g.view() : ConstStreams{g.mu.view(), {}};
  };
  const auto places = [](Gaussians& g) { return AnyBlock::kGaussian ? g.view() : Streams{g.mu.view(), {}}; };
  Gaussians y(shape), grad_x(shape);
  Workspace workspace;
  const PositionPlan plan = rope_plan(config.hidden_size / config.num_attention_heads, 9);
  NamedWeights weights;
  block.list_weights("", weights);
  typename AnyBlock::Saved saved;
  const auto loss = [&] {
    block.forward(streams(x), plan, {.causal = true}, places(y), &saved, workspace);
    double sum = std::inner_product(y.mu.begin(), y.mu.end(), direction.mu.begin(), 0.0);
    if (AnyBlock::kGaussian)
      sum += std::inner_product(y.log_sigma.begin(), y.log_sigma.end(), direction.log_sigma.begin(), 0.0);
    return sum;
  };
  loss();
  block.backward(saved, streams(direction), places(grad_x), nullptr, workspace);
  // Along the gradient itself, whose slope is its norm: no cancellation.
  double squares = 0;
  for (const NamedWeight& w : weights)
    for (const float g : w.weight->gradient()) squares += static_cast<double>(g) * g;
  const double norm = std::sqrt(squares);
  const auto moved_loss = [&](double step) {
    for (const NamedWeight& w : weights)
      for (std::size_t i = 0; i < w.weight->value().size(); i++)
        w.weight->value()[i] += static_cast<float>(step / norm * w.weight->gradient()[i]);
    return loss();
  };
  const double above = moved_loss(kStep), below = moved_loss(-2 * kStep);
  return {norm, (above - below) / (2 * kStep)};
}

void check_gradients(std::vector<Check>& checks) {
  const BlockConfig config{.hidden_size = 32, .num_attention_heads = 4, .intermediate_size = 64};
  const Slopes w2 = slopes_of<W2Block>(config), dot = slopes_of<Block>(config);
  checks.push_back(
      near("W2 block gradients: slope along them", w2.by_difference, w2.by_gradient, 2e-3 * w2.by_gradient));
  checks.push_back(
      near("block gradients: slope along them", dot.by_difference, dot.by_gradient, 2e-3 * dot.by_gradient));
}

// ---- documents 001 and 002: order, masks, weights ----

constexpr std::int64_t kEmbed = 64, kHeads = 4, kTokens = 12;

// Rows in reverse order: a permutation that is its own inverse.
Rows reversed(const Rows& x) {
  Rows result(x.shape());
  for (std::int64_t t = 0; t < x.shape()[1]; t++)
    std::copy_n(&x(0, t, 0), x.shape()[2], &result(0, x.shape()[1] - 1 - t, 0));
  return result;
}

void check_order(std::vector<Check>& checks) {
  InitialValues initial(11);
  const MultiHeadAttention attention({.embed_dim = kEmbed, .num_heads = kHeads}, initial);
  Workspace workspace;
  const Rows x = random_rows({1, kTokens, kEmbed}, 21);
  const auto change = [&](const PositionPlan& plan) {
    const Rows swapped = reversed(x);
    Rows y(x.shape()), y_swapped(x.shape());
    attention.forward({.query = x.view()}, plan, {}, y.view(), nullptr, workspace);
    attention.forward({.query = swapped.view()}, plan, {}, y_swapped.view(), nullptr, workspace);
    return largest_difference(reversed(y_swapped), y);
  };
  checks.push_back(at_most("no encoding: reversed input, change of results", change({}), 1e-6));
  const double seen = change(rope_plan(kEmbed / kHeads, kTokens));
  checks.push_back({"RoPE: reversed input, change of results", number(seen, 3), "above 0.001", seen > 1e-3});
}

void check_multi_head(std::vector<Check>& checks) {
  InitialValues initial(12);
  const MultiHeadAttention attention({.embed_dim = kEmbed, .num_heads = kHeads}, initial);
  Workspace workspace;
  const Rows query = random_rows({2, 5, kEmbed}, 22), memory = random_rows({2, 9, kEmbed}, 23);
  PositionPlan plan = rope_plan(kEmbed / kHeads, 5);
  plan.rotate_k = rotary_table({.head_dim = kEmbed / kHeads}, consecutive_positions(9));
  Rows y(query.shape());
  Tensor<float, 4> weights({2, kHeads, 5, 9}), mask({2, 1, 1, 9});
  for (std::int64_t j = 6; j < 9; j++) mask(1, 0, 0, j) = -INFINITY;  // padding of the second sequence
  attention.forward({.query = query.view(), .key = memory.view()}, plan, {.mask = mask.view()}, y.view(), nullptr,
                    workspace, weights.view());
  checks.push_back(equal("cross attention, 5 queries of 9 keys", text_of(y.shape()) + (all_finite(y) ? " finite" : ""),
                         "[2, 5, 64] finite"));
  double off_one = 0, on_padding = 0;
  for (std::int64_t h = 0; h < kHeads; h++)
    for (std::int64_t i = 0; i < 5; i++) {
      const float* row = &weights(1, h, i, 0);
      off_one = std::max(off_one, std::fabs(std::accumulate(row, row + 9, 0.0) - 1.0));
      on_padding = std::max(on_padding, std::accumulate(row + 6, row + 9, 0.0));
    }
  checks.push_back(at_most("weights: |sum of a row - 1|", off_one, 1e-6));
  checks.push_back(at_most("padding mask of -infinity: weight on padding", on_padding, 0));
}

void check_pairing_types(std::vector<Check>& checks) {
  constexpr bool mixes =
      std::is_convertible_v<AdjacentTable, HalfTable> || std::is_convertible_v<HalfTable, AdjacentTable>;
  checks.push_back(equal("a table of the other pairing", mixes ? "accepted" : "refused", "refused"));
}

// ---- decoding ----

// Token by token against all at once, with plans of one encoding.
template <class AnyBlock>
double decoding_error(const EncodingConfig& encoding) {
  const BlockConfig config{.hidden_size = kEmbed, .num_attention_heads = kHeads, .intermediate_size = 96};
  const ModelShape shape{.heads = kHeads, .head_dim = kEmbed / kHeads, .model_dim = kEmbed, .max_length = kTokens};
  InitialValues initial(13);
  const AnyBlock block(config, initial);
  Workspace workspace;
  Gaussians x({1, kTokens, kEmbed}, 31), whole(x.mu.shape()), decoded(x.mu.shape());
  const auto tokens = [](Gaussians& g, std::int64_t first, std::int64_t count) -> Streams {
    const Streams all = g.view();
    return {all.mu.slice(1, first, count),
            AnyBlock::kGaussian ? all.log_sigma.slice(1, first, count) : TensorView<float, 3>()};
  };
  const Tensor<std::int64_t, 3> positions = consecutive_positions(kTokens);
  block.forward(tokens(x, 0, kTokens), lower(encoding, {}, {.queries = positions.view(), .shape = shape}),
                {.causal = true}, tokens(whole, 0, kTokens), nullptr, workspace);
  LayerCache cache = block.make_cache({.capacity = kTokens, .keys = CachedKeys::unrotated});
  for (std::int64_t t = 0; t < kTokens; t++) {
    const Placement placement{positions.view().slice(2, t, 1), positions.view().slice(2, 0, t + 1), shape};
    block.decode(tokens(x, t, 1), lower(encoding, {}, placement), {}, cache, tokens(decoded, t, 1), workspace);
  }
  return largest_difference(whole.mu, decoded.mu);
}

void check_decoding(std::vector<Check>& checks) {
  const EncodingConfig rope = RopeConfig{.head_dim = kEmbed / kHeads};
  checks.push_back(at_most("decoding with a cache, RoPE", decoding_error<Block>(rope), 1e-5));
  checks.push_back(at_most("decoding with a cache, ALiBi", decoding_error<Block>(AlibiConfig{.causal = true}), 1e-5));
  checks.push_back(at_most("decoding with a cache, W2 with RoPE", decoding_error<W2Block>(rope), 1e-5));
}

}  // namespace

std::vector<Check> layer_checks() {
  std::vector<Check> checks;
  check_w2_forward(checks);
  check_gradients(checks);
  check_order(checks);
  check_multi_head(checks);
  check_pairing_types(checks);
  check_decoding(checks);
  return checks;
}

}  // namespace phasor::tool
