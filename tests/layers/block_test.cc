// Both blocks against the double reference, and their bits with any number of threads.
#include "phasor/layers/block.h"

#include <limits>
#include <set>

#include "layers/streams_check.h"
#include "support/seeds.h"

namespace phasor {
namespace {

BlockConfig plain_config() {
  return {.hidden_size = 24, .num_attention_heads = 3, .intermediate_size = 29, .norm_eps = 1e-3};
}
BlockConfig grouped_config() {
  return {.hidden_size = 20,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 6,
          .intermediate_size = 31,
          .norm_eps = 1e-3};
}

template <class Layer>
void check(const BlockConfig& config, StreamsCase c) {
  InitialValues initial(1);
  Layer block(config, initial);
  c.channels = config.hidden_size, c.eps = config.norm_eps, c.dropout = config.attention_dropout;
  const std::int64_t terms = 6 * c.channels + 8 * block.attention().heads().head_dim + 2 * config.intermediate_size +
                             2 * c.tokens + c.batch * c.tokens * (config.qk_norm ? config.num_attention_heads : 1);
  StreamsCheck(block, block.attention().heads(), Layer::kGaussian, std::move(c),
               [](const WeightValues& weights, const reference::LayerCall& call, const reference::StreamRows& x) {
                 if constexpr (Layer::kGaussian) {
                   return reference::w2_block(weights, call, x);
                 } else {
                   return reference::StreamRows{reference::block(weights, call, x.mu), Matrix(0, 0)};
                 }
               })
      .run(terms);
}

template <class Layer>
class Blocks : public testing::Test {};
using Both = testing::Types<Block, W2Block>;
TYPED_TEST_SUITE(Blocks, Both);

TYPED_TEST(Blocks, EveryEncoding) {
  for (const Encoding& row : encodings()) {
    SCOPED_TRACE(row.name);
    check<TypeParam>(plain_config(), {.plan = default_plan(row.name, kSmallShape, 7, 7), .options = {.causal = true}});
  }
}

TYPED_TEST(Blocks, GroupedQueriesWindowAndDropout) {
  BlockConfig config = grouped_config();
  config.attention_dropout = 0.2;
  if (!TypeParam::kGaussian) config.qk_norm = config.attention_bias = true;
  check<TypeParam>(config, {.batch = 1,
                            .tokens = 37,
                            .plan = default_plan("rope", kGroupedShape, 37, 37),
                            .options = {.causal = true, .window = 9, .seed = 5}});
}

TYPED_TEST(Blocks, PaddingMask) {
  Tensor<float, 4> mask({2, 1, 1, 7});
  mask(1, 0, 0, 5) = mask(1, 0, 0, 6) = -std::numeric_limits<float>::infinity();
  check<TypeParam>(plain_config(),
                   {.plan = default_plan("alibi", kSmallShape, 7, 7), .options = {.mask = mask.view()}});
}

// Sizes and options at random, each case by a seed of its own.
TYPED_TEST(Blocks, RandomCases) {
  for (const std::uint32_t seed : seeds({.count = 16})) {
    SCOPED_TRACE(repeat_seed(seed));
    std::uint64_t drawn = 0;
    const Philox random(seed, 9);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(random.block(drawn++)[0] % static_cast<std::uint64_t>(high - low + 1));
    };
    const std::int64_t key_heads = pick(1, 3), group = pick(1, 2), width = 2 * pick(1, 6), tokens = pick(1, 25);
    const ModelShape shape{
        .heads = key_heads * group, .head_dim = width, .model_dim = 2 * pick(2, 12), .max_length = 50};
    const BlockConfig config{.hidden_size = shape.model_dim,
                             .num_attention_heads = shape.heads,
                             .num_key_value_heads = key_heads,
                             .head_dim = width,
                             .intermediate_size = pick(1, 33),
                             .norm_eps = 1e-3,
                             .qk_norm = !TypeParam::kGaussian && pick(0, 1) == 1,
                             .attention_dropout = pick(0, 3) ? 0.0 : 0.2};
    StreamsCase c{.batch = pick(1, 3),
                  .tokens = tokens,
                  .plan = default_plan(encodings()[seed % encodings().size()].name, shape, tokens, tokens),
                  .options = {.causal = pick(0, 1) == 1, .seed = seed}};
    if (pick(0, 2) == 0) c.options.window = Window(pick(1, 9), pick(1, 9));
    check<TypeParam>(config, std::move(c));
  }
}

// Two blocks that share a workspace and a plan's gradient, forward and backward.
template <class Layer>
struct Stack {
  InitialValues initial{3};
  Layer first, second;
  NamedWeights weights;
  typename Layer::Saved first_saved, second_saved;
  Workspace workspace;

  explicit Stack(const BlockConfig& config) : first(config, initial), second(config, initial) {
    first.list_weights("0", weights);
    second.list_weights("1", weights);
  }

  // All results as one list.
  Values step(const StreamTensors& x, const StreamTensors& grad_y, const PositionPlan& plan,
              const AttentionOptions& options) {
    const Shape<3>& shape = x.mu.shape();
    constexpr bool kTwo = Layer::kGaussian;
    StreamTensors middle(shape, kTwo), y(shape, kTwo), grad_middle(shape, kTwo), grad_x(shape, kTwo);
    PlanGradient grad_plan;
    for (NamedWeight& each : weights) each.weight->clear_gradient();
    first.forward(x.view(), plan, options, middle.view(), &first_saved, workspace);
    second.forward(std::as_const(middle).view(), plan, options, y.view(), &second_saved, workspace);
    second.backward(second_saved, grad_y.view(), grad_middle.view(), &grad_plan, workspace);
    first.backward(first_saved, std::as_const(grad_middle).view(), grad_x.view(), &grad_plan, workspace);
    Values all = y.values();
    const auto append = [&](const Values& more) { all.insert(all.end(), more.begin(), more.end()); };
    append(grad_x.values());
    if (grad_plan.bias) append(values_of(*grad_plan.bias));
    for (NamedWeight& each : weights) append(values_of(each.weight->gradient()));
    return all;
  }
};

// Large enough that every part is cut into several tasks.
TYPED_TEST(Blocks, SameBitsWithAnyNumberOfThreads) {
  const BlockConfig config{
      .hidden_size = 96, .num_attention_heads = 6, .num_key_value_heads = 2, .head_dim = 20, .intermediate_size = 200};
  const ModelShape shape{.heads = 6, .head_dim = 20, .model_dim = 96, .max_length = 512};
  const Shape<3> size{2, 201, 96};
  const StreamTensors x = StreamTensors::random(size, TypeParam::kGaussian, 1);
  const StreamTensors grad_y = StreamTensors::random(size, TypeParam::kGaussian, 2);
  for (const char* encoding : {"rope", "relative"}) {
    SCOPED_TRACE(encoding);
    const PositionPlan plan = default_plan(encoding, shape, 201, 201);
    Stack<TypeParam> stack(config);
    const auto run = [&](int threads) {
      set_num_threads(threads);
      return stack.step(x, grad_y, plan, {.causal = true});
    };
    const Values single = run(1);
    for (const double value : single) ASSERT_TRUE(std::isfinite(value));
    for (const int threads : {2, 3, 5}) EXPECT_TRUE(run(threads) == single) << threads << " threads";
    set_num_threads(0);
  }
}

TYPED_TEST(Blocks, WithoutSavedYMayBeX) {
  InitialValues initial(1);
  const TypeParam block(plain_config(), initial);
  const Shape<3> size{2, 33, 24};  // more queries than the decode kernel takes, which rounds otherwise
  StreamTensors x = StreamTensors::random(size, TypeParam::kGaussian, 1), y(size, TypeParam::kGaussian);
  Workspace workspace;
  typename TypeParam::Saved saved;
  block.forward(std::as_const(x).view(), {}, {.causal = true}, y.view(), &saved, workspace);
  block.forward(std::as_const(x).view(), {}, {.causal = true}, x.view(), nullptr, workspace);
  EXPECT_EQ(x.values(), y.values());
}

// What forward saves keeps a plan that was a temporary.
TYPED_TEST(Blocks, APlanMayBeATemporary) {
  const Shape<3> size{2, 7, 24};
  const StreamTensors x = StreamTensors::random(size, TypeParam::kGaussian, 1);
  const StreamTensors grad_y = StreamTensors::random(size, TypeParam::kGaussian, 2);
  for (const char* encoding : {"rope", "relative"}) {
    SCOPED_TRACE(encoding);
    const auto plan = [&] { return default_plan(encoding, kSmallShape, 7, 7); };
    const PositionPlan kept = plan();
    const auto gradients = [&](bool temporary) {
      InitialValues initial(1);
      TypeParam block(plain_config(), initial);
      StreamTensors y(size, TypeParam::kGaussian), grad_x(size, TypeParam::kGaussian);
      Workspace workspace;
      typename TypeParam::Saved saved;
      block.forward(x.view(), temporary ? PlanInput(plan()) : PlanInput(kept), {}, y.view(), &saved, workspace);
      PositionPlan other = plan();  // takes the memory of a plan that was freed
      if (other.bias) std::fill(other.bias->table.begin(), other.bias->table.end(), NAN);
      if (other.rotate_q)
        std::visit([](auto& table) { std::fill(table.cos.begin(), table.cos.end(), NAN); }, *other.rotate_q);
      block.backward(saved, grad_y.view(), grad_x.view(), nullptr, workspace);
      return grad_x.values();
    };
    EXPECT_EQ(gradients(true), gradients(false));
  }
}

TYPED_TEST(Blocks, WeightsGoByNames) {
  InitialValues initial(1);
  TypeParam block(plain_config(), initial);
  NamedWeights weights;
  block.list_weights("layers.3", weights);
  std::set<std::string> names;
  for (const NamedWeight& each : weights) EXPECT_TRUE(names.insert(each.name).second) << each.name << " twice";
  EXPECT_EQ(names.size(), TypeParam::kGaussian ? 4u + 9u + 6u : 2u + 4u + 3u);
  EXPECT_TRUE(names.contains(TypeParam::kGaussian ? "layers.3.attention_norm_log_sigma.weight"
                                                  : "layers.3.attention_norm.weight"));
  EXPECT_TRUE(
      names.contains(TypeParam::kGaussian ? "layers.3.ffn.log_sigma.up_proj.weight" : "layers.3.ffn.up_proj.weight"));
}

}  // namespace
}  // namespace phasor
