// Layers against the same modules in plain torch (tests/golden/make_layers.py): values to 1e-5 of the largest,
// gradients of inputs and weights to 1e-4.
#include <limits>
#include <set>

#include "layers/check_layer.h"
#include "phasor/layers/block.h"
#include "phasor/position/rope.h"
#include "support/golden.h"

namespace phasor {
namespace {

using nlohmann::json;

constexpr double kValues = 1e-5, kGradients = 1e-4;

// null stands for -infinity.
std::vector<float> numbers(const json& list) {
  std::vector<float> values;
  for (const auto& value : list)
    values.push_back(value.is_null() ? -std::numeric_limits<float>::infinity()
                                     : static_cast<float>(value.get<double>()));
  return values;
}

template <int Rank>
Tensor<float, Rank> tensor(const json& input) {
  Shape<Rank> shape{};
  for (std::size_t i = 0; i < Rank; i++) shape[i] = input.at("shape").at(i);
  Tensor<float, Rank> result(shape);
  std::ranges::copy(numbers(input.at("values")), result.begin());
  return result;
}

void expect_like(const std::string& name, std::span<const float> found, const json& list, double relative) {
  const Values expected = values_of(std::span<const float>(numbers(list)));
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  expect_near(name.c_str(), values_of(found), expected, relative * largest);
}
template <int Rank>
void expect_like(const std::string& name, const Tensor<float, Rank>& found, const json& list, double relative) {
  expect_like(name, std::span<const float>(found.data(), static_cast<std::size_t>(found.size())), list, relative);
}

// The weights of a layer are those of the case, no more and no fewer.
template <class Layer>
NamedWeights set_weights(Layer& layer, const json& golden) {
  NamedWeights weights;
  layer.list_weights("", weights);
  EXPECT_EQ(weights.size(), golden.at("weights").size());
  for (NamedWeight& each : weights) {
    const std::vector<float> values = numbers(golden.at("weights").at(each.name));
    EXPECT_EQ(values.size(), each.weight->value().size()) << each.name;
    std::ranges::copy(values, each.weight->value().begin());
  }
  return weights;
}

void expect_weight_gradients(const NamedWeights& weights, const json& golden) {
  for (const NamedWeight& each : weights)
    expect_like("gradient of " + each.name, each.weight->gradient(), golden.at("gradients").at(each.name), kGradients);
}

PositionPlan rotation(const RopeConfig& rope, std::int64_t queries, std::int64_t keys) {
  PositionPlan plan;
  plan.rotate_q = rotary_table(rope, consecutive_positions(queries));
  plan.rotate_k = rotary_table(rope, consecutive_positions(keys));
  return plan;
}

void check_multi_head(const json& golden) {
  const json &config = golden.at("config"), &inputs = golden.at("inputs");
  InitialValues initial(1);
  MultiHeadAttention layer({.embed_dim = config.at("embed_dim"), .num_heads = config.at("num_heads")}, initial);
  const NamedWeights weights = set_weights(layer, golden);
  const bool cross = inputs.contains("key");
  const Tensor<float, 3> query = tensor<3>(inputs.at("query")), grad_y = tensor<3>(inputs.at("grad_y"));
  const Tensor<float, 3> key = tensor<3>(inputs.at(cross ? "key" : "query")),
                         value = tensor<3>(inputs.at(cross ? "value" : "query"));
  const Tensor<float, 4> mask = tensor<4>(inputs.at("mask"));
  const AttentionInputs given =
      cross ? AttentionInputs{query.view(), key.view(), value.view()} : AttentionInputs{query.view()};
  const std::int64_t queries = query.shape()[1], keys = key.shape()[1];
  const PositionPlan plan = rotation({.head_dim = layer.heads().head_dim, .pairing = Pairing::adjacent}, queries, keys);
  Tensor<float, 3> y(query.shape()), grad_query(query.shape()), grad_key(key.shape()), grad_value(key.shape());
  Tensor<float, 4> attention_weights({query.shape()[0], layer.heads().heads, queries, keys});
  AttentionLayer::Saved saved;
  Workspace workspace;
  layer.forward(given, plan, {.mask = mask.view()}, y.view(), &saved, workspace, attention_weights.view());
  AttentionInputGradients gradients{.query = grad_query.view()};
  if (cross) gradients.key = grad_key.view(), gradients.value = grad_value.view();
  layer.backward(saved, grad_y.view(), gradients, nullptr, workspace);
  expect_like("y", y, golden.at("outputs").at("y"), kValues);
  expect_like("weights", attention_weights, golden.at("outputs").at("weights"), kValues);
  expect_like("grad_query", grad_query, golden.at("gradients").at("query"), kGradients);
  if (cross) {
    expect_like("grad_key", grad_key, golden.at("gradients").at("key"), kGradients);
    expect_like("grad_value", grad_value, golden.at("gradients").at("value"), kGradients);
  }
  expect_weight_gradients(weights, golden);
}

void check_qwen3_attention(const json& golden) {
  const json &config = golden.at("config"), &inputs = golden.at("inputs");
  InitialValues initial(1);
  AttentionLayer layer({.hidden_size = config.at("hidden_size"),
                        .num_attention_heads = config.at("num_attention_heads"),
                        .num_key_value_heads = config.at("num_key_value_heads"),
                        .head_dim = config.at("head_dim"),
                        .qk_norm = true,
                        .norm_eps = config.at("rms_norm_eps")},
                       initial);
  const NamedWeights weights = set_weights(layer, golden);
  const Tensor<float, 3> x = tensor<3>(inputs.at("x")), grad_y = tensor<3>(inputs.at("grad_y"));
  const std::int64_t tokens = x.shape()[1];
  const PositionPlan plan =
      rotation({.head_dim = config.at("head_dim"), .theta = config.at("rope_theta")}, tokens, tokens);
  Tensor<float, 3> y(x.shape()), grad_x(x.shape());
  AttentionLayer::Saved saved;
  Workspace workspace;
  layer.forward({.query = x.view()}, plan, {.causal = true}, y.view(), &saved, workspace);
  layer.backward(saved, grad_y.view(), {.query = grad_x.view()}, nullptr, workspace);
  expect_like("y", y, golden.at("outputs").at("y"), kValues);
  expect_like("grad_x", grad_x, golden.at("gradients").at("x"), kGradients);
  expect_weight_gradients(weights, golden);
}

void check_qwen3_mlp(const json& golden) {
  const json& config = golden.at("config");
  InitialValues initial(1);
  FeedForward layer({config.at("hidden_size"), config.at("intermediate_size")}, initial);
  const NamedWeights weights = set_weights(layer, golden);
  const Tensor<float, 3> x = tensor<3>(golden.at("inputs").at("x")),
                         grad_y = tensor<3>(golden.at("inputs").at("grad_y"));
  const Shape<2> rows{x.shape()[0] * x.shape()[1], x.shape()[2]};
  Tensor<float, 2> y(rows), grad_x(rows);
  FeedForward::Saved saved;
  Workspace workspace;
  layer.forward({x.data(), rows}, y.view(), &saved, workspace);
  layer.backward(saved, {grad_y.data(), rows}, grad_x.view(), workspace);
  expect_like("y", y, golden.at("outputs").at("y"), kValues);
  expect_like("grad_x", grad_x, golden.at("gradients").at("x"), kGradients);
  expect_weight_gradients(weights, golden);
}

void check_w2_block(const json& golden) {
  const json &config = golden.at("config"), &inputs = golden.at("inputs");
  InitialValues initial(1);
  W2Block block({.hidden_size = config.at("hidden_size"),
                 .num_attention_heads = config.at("num_attention_heads"),
                 .intermediate_size = config.at("intermediate_size"),
                 .norm_eps = config.at("rms_norm_eps")},
                initial);
  const NamedWeights weights = set_weights(block, golden);
  const Tensor<float, 3> mu = tensor<3>(inputs.at("mu")), log_sigma = tensor<3>(inputs.at("log_sigma"));
  const Tensor<float, 3> grad_mu = tensor<3>(inputs.at("grad_mu")),
                         grad_log_sigma = tensor<3>(inputs.at("grad_log_sigma"));
  const Tensor<float, 4> mask = tensor<4>(inputs.at("mask"));
  const std::int64_t tokens = mu.shape()[1];
  const PositionPlan plan = rotation({.head_dim = block.attention().heads().head_dim}, tokens, tokens);
  Tensor<float, 3> y_mu(mu.shape()), y_log_sigma(mu.shape()), x_mu(mu.shape()), x_log_sigma(mu.shape());
  W2Block::Saved saved;
  Workspace workspace;
  block.forward({mu.view(), log_sigma.view()}, plan, {.mask = mask.view()}, {y_mu.view(), y_log_sigma.view()}, &saved,
                workspace);
  block.backward(saved, {grad_mu.view(), grad_log_sigma.view()}, {x_mu.view(), x_log_sigma.view()}, nullptr, workspace);
  expect_like("mu", y_mu, golden.at("outputs").at("mu"), kValues);
  expect_like("log_sigma", y_log_sigma, golden.at("outputs").at("log_sigma"), kValues);
  expect_like("gradient of mu", x_mu, golden.at("gradients").at("mu"), kGradients);
  expect_like("gradient of log_sigma", x_log_sigma, golden.at("gradients").at("log_sigma"), kGradients);
  expect_weight_gradients(weights, golden);
}

TEST(LayersGolden, EveryCase) {
  const json cases = read_golden("layers.json");
  std::multiset<std::string> kinds;
  for (const json& golden : cases) {
    const std::string kind = golden.at("kind");
    SCOPED_TRACE(kind + ", case " + std::to_string(kinds.size()));
    kinds.insert(kind);
    on_every_target([&] {
      if (kind == "multi_head") check_multi_head(golden);
      if (kind == "qwen3_attention") check_qwen3_attention(golden);
      if (kind == "qwen3_mlp") check_qwen3_mlp(golden);
      if (kind == "w2_block") check_w2_block(golden);
    });
  }
  EXPECT_EQ(kinds, (std::multiset<std::string>{"multi_head", "multi_head", "qwen3_attention", "qwen3_mlp", "w2_block",
                                               "w2_block"}));
}

}  // namespace
}  // namespace phasor
