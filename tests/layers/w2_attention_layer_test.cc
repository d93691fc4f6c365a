// W2AttentionLayer and W2FeedForward against the double reference.
#include "phasor/layers/w2_attention_layer.h"

#include "layers/streams_check.h"

namespace phasor {
namespace {

const W2AttentionConfig kPlain{.hidden_size = 24, .num_attention_heads = 3};
const W2AttentionConfig kGrouped{.hidden_size = 20, .num_attention_heads = 4, .num_key_value_heads = 2, .head_dim = 6};

void check(const W2AttentionConfig& config, StreamsCase c) {
  InitialValues initial(1);
  W2AttentionLayer layer(config, initial);
  c.channels = config.hidden_size, c.dropout = config.dropout;
  // Scores are sums over both streams, and their rounding goes through the softmax.
  const std::int64_t terms = 3 * c.channels + 8 * layer.heads().head_dim + 2 * c.tokens + c.batch * c.tokens;
  StreamsCheck(layer, layer.heads(), true, std::move(c),
               [](const WeightValues& weights, const reference::LayerCall& call, const reference::StreamRows& x) {
                 return reference::w2_attention_layer(weights, "", call, x).y;
               })
      .run(terms);
}

TEST(W2AttentionLayer, EveryEncoding) {
  for (const Encoding& row : encodings())
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::string(row.name) + (causal ? ", causal" : ""));
      check(kPlain, {.plan = default_plan(row.name, kSmallShape, 7, 7), .options = {.causal = causal}});
    }
}

TEST(W2AttentionLayer, GroupedQueriesAndWindow) {
  for (const Encoding& row : encodings()) {
    SCOPED_TRACE(row.name);
    check(kGrouped, {.batch = 1,
                     .tokens = 37,
                     .plan = default_plan(row.name, kGroupedShape, 37, 37),
                     .options = {.causal = true, .window = 9}});
  }
}

TEST(W2AttentionLayer, MasksAndLengths) {
  const Tensor<float, 4> mask = random_tensor<4>({2, 1, 7, 7}, 8);
  const std::vector<std::int64_t> lengths{4, 7};
  Tensor<bool, 4> visible({1, 3, 7, 7});
  for (std::int64_t i = 0; i < visible.size(); i++) visible.data()[i] = i % 5 != 0;
  MaskInput masks = visible.view();
  masks.added = mask.view();
  check(kPlain, {.options = {.key_lengths = lengths, .mask = masks}});
}

TEST(W2AttentionLayer, Dropout) {
  W2AttentionConfig config = kGrouped;
  config.dropout = 0.3;
  check(config, {.plan = default_plan("rope", kGroupedShape, 7, 7), .options = {.seed = 77}});
}

TEST(W2AttentionLayer, WeightsAreReturned) {
  InitialValues initial(1);
  W2AttentionLayer layer(kGrouped, initial);
  LayerWeights named(layer);
  const StreamTensors x = StreamTensors::random({2, 7, 20}, true, 1);
  StreamTensors y({2, 7, 20}, true);
  Tensor<float, 4> weights = unwritten<4>({2, 4, 7, 7});
  Workspace workspace;
  const PositionPlan plan = default_plan("rope", kGroupedShape, 7, 7);
  layer.forward(x.view(), plan, {.causal = true}, y.view(), nullptr, workspace, weights.view());
  const reference::LayerCall call = reference::layer_call(layer.heads(), {.causal = true}, plan, 2, 7, 7);
  const Values expected =
      reference::w2_attention_layer(named.values(), "", call, stream_rows(x.values(), 20, true)).weights.values;
  expect_near("weights", values_of(weights), expected, 0x1p-24 * (3 * 20 + 8 * 6 + 32));
}

TEST(W2AttentionLayer, TauBeginsAtOneAndHasAName) {
  InitialValues initial(1);
  W2AttentionLayer layer(kPlain, initial);
  EXPECT_EQ(layer.tau(), 1.0f);
  NamedWeights weights;
  layer.list_weights("attention", weights);
  ASSERT_EQ(weights.size(), 9u);
  EXPECT_EQ(weights.front().name, "attention.q_mu.weight");
  EXPECT_EQ(weights[4].name, "attention.q_log_sigma.weight");
  EXPECT_EQ(weights.back().name, "attention.tau");
}

TEST(W2FeedForward, StreamsAreIndependent) {
  InitialValues initial(1);
  W2FeedForward layer(5, 9, initial);
  NamedWeights weights;
  layer.list_weights("ffn", weights);
  ASSERT_EQ(weights.size(), 6u);
  EXPECT_EQ(weights[0].name, "ffn.mu.gate_proj.weight");
  EXPECT_EQ(weights[5].name, "ffn.log_sigma.down_proj.weight");
  StreamTensors x = StreamTensors::random({2, 3, 5}, true, 1), y({2, 3, 5}, true), other({2, 3, 5}, true);
  Workspace workspace;
  layer.forward(x.view(), y.view(), nullptr, workspace);
  x.mu(0, 0, 0) += 1.0f;
  layer.forward(x.view(), other.view(), nullptr, workspace);
  EXPECT_FALSE(std::ranges::equal(y.mu, other.mu));
  EXPECT_TRUE(std::ranges::equal(y.log_sigma, other.log_sigma));
}

}  // namespace
}  // namespace phasor
