// What layers with attention have to show: values of the double reference, and gradients of its central differences for
// everything that the loss depends on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layers/check_layer.h"
#include "phasor/position/encoding.h"
#include "reference/blocks.h"

namespace phasor {

using reference::WeightValues;

// Numbers that a loss depends on, and the gradient that backward found.
struct Leaf {
  std::string name;
  Values at, found;
};

inline Values values_of(const Tensor<float, 3>& x) { return {x.begin(), x.end()}; }
inline Values values_of(const Tensor<float, 4>& x) { return {x.begin(), x.end()}; }
inline Values values_of(const Tensor<float, 2>& x) { return {x.begin(), x.end()}; }

// How large the terms of a gradient are that may cancel, as far as attention makes them.
//
// The gradient of a score is P (dP - sum of P dP): a difference of numbers that the gradients of values are made of,
// and 0 for a query with one key. So whatever only scores depend on is compared on the scale of v's gradient.
//
// tau: scores are of degree 2 in the projections of the means, so (Euler) tau times its gradient is the sum of weight
// times gradient of q_mu and k_mu, halved, and the same of the sigmas.
inline double size_of_terms(const std::vector<Leaf>& leaves, const std::string& name) {
  const auto has = [](const std::string& text, std::initializer_list<const char*> parts) {
    return std::ranges::any_of(parts, [&](const char* part) { return text.find(part) != std::string::npos; });
  };
  if (!has(name, {"q_", "k_", "tau", "mask", "plan.bias", "query", "key"})) return 0;
  double size = 0, euler = 0;
  for (const Leaf& leaf : leaves)
    for (std::size_t i = 0; i < leaf.at.size(); i++) {
      if (has(leaf.name, {"v_proj.weight", "v_mu.weight", "v_log_sigma.weight"}))
        size = std::max(size, std::fabs(leaf.found[i]));
      if (has(leaf.name, {"q_mu.weight", "k_mu.weight"})) euler += std::fabs(leaf.at[i] * leaf.found[i]) / 2;
    }
  return name.ends_with("tau") ? std::max(size, euler) : size;
}

// The slopes of a loss by all leaves: it is a function of their numbers, in their order.
inline std::vector<Differences> slopes_of(const std::vector<Leaf>& leaves,
                                          const std::function<double(const std::vector<Values>&)>& loss) {
  std::vector<Values> at;
  for (const Leaf& leaf : leaves) at.push_back(leaf.at);
  std::vector<Differences> slopes;
  for (std::size_t i = 0; i < leaves.size(); i++) {
    const auto changed = [&](const Values& values) {
      at[i] = values;
      return loss(at);
    };
    slopes.push_back(differences(changed, leaves[i].at));
    at[i] = leaves[i].at;
  }
  return slopes;
}

inline void expect_gradients(const std::vector<Leaf>& leaves, const std::vector<Differences>& slopes,
                             std::int64_t terms) {
  for (std::size_t i = 0; i < leaves.size(); i++)
    expect_slopes(leaves[i].name, leaves[i].found, slopes[i], terms, size_of_terms(leaves, leaves[i].name));
}

inline double product(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); i++) sum += a[i] * b[i];
  return sum;
}

template <int Rank>
Tensor<float, Rank> random_tensor(const Shape<Rank>& shape, std::uint64_t seed, float spread = 1.0f) {
  Tensor<float, Rank> result(shape);
  Philox(seed).fill_normal({result.data(), static_cast<std::size_t>(result.size())}, 0.0f, spread);
  return result;
}

// What is to be written must not be read.
template <int Rank>
Tensor<float, Rank> unwritten(const Shape<Rank>& shape) {
  Tensor<float, Rank> result(shape);
  std::fill(result.begin(), result.end(), guard_value<float>());
  return result;
}

// The weights of a layer: random values of them, and gradients that begin at a number of their own, since they are
// added to.
class LayerWeights {
 public:
  static constexpr float kBefore = 0.25f;

  template <class Layer>
  explicit LayerWeights(Layer& layer, std::uint64_t seed = 100) {
    layer.list_weights("", named_);
    set_random_weights(named_, seed);
    // tau of 1.5: not the initial value, and far from 0.
    for (NamedWeight& each : named_)
      if (each.weight->shape().empty()) each.weight->value()[0] = 1.5f;
  }

  NamedWeights& named() { return named_; }
  void begin() {
    for (NamedWeight& each : named_) std::ranges::fill(each.weight->gradient(), kBefore);
  }
  void append_to(std::vector<Leaf>& leaves) {
    for (NamedWeight& each : named_) {
      Values found = values_of(each.weight->gradient());
      for (double& value : found) value -= static_cast<double>(kBefore);
      leaves.push_back({each.name, values_of(std::as_const(*each.weight).value()), std::move(found)});
    }
  }
  // The values in a list of leaves' values whose first weight is number `first`.
  WeightValues read(const std::vector<Values>& leaves, std::size_t first) const {
    WeightValues result;
    for (std::size_t i = 0; i < named_.size(); i++) result[named_[i].name] = leaves[first + i];
    return result;
  }
  WeightValues values() const {
    WeightValues result;
    for (const NamedWeight& each : named_) result[each.name] = values_of(std::as_const(*each.weight).value());
    return result;
  }

 private:
  NamedWeights named_;
};

// A plan with random parameters. Keys stand at 0 .. keys - 1, queries at the last of these places, or from 0 if
// `queries` is larger.
inline PositionPlan plan_of(const EncodingConfig& config, const ModelShape& shape, std::int64_t queries,
                            std::int64_t keys) {
  std::vector<Weight> weights = parameters(config, shape, 5);
  for (Weight& weight : weights)
    if (config.name() != "alibi") Philox(6).fill_normal(weight.value());
  const Tensor<std::int64_t, 3> all = consecutive_positions(keys);
  const Tensor<std::int64_t, 3> new_ones = consecutive_positions(queries, std::max<std::int64_t>(0, keys - queries));
  Placement placement{.queries = new_ones.view(), .shape = shape};
  if (queries != keys) placement.keys = all.view();
  return lower(config, weights, placement);
}

inline PositionPlan default_plan(std::string_view name, const ModelShape& shape, std::int64_t queries,
                                 std::int64_t keys) {
  return plan_of(encoding(name).defaults(shape), shape, queries, keys);
}

}  // namespace phasor
