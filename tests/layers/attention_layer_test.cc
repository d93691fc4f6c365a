// AttentionLayer and MultiHeadAttention against the double reference: values, weights, and gradients of inputs,
// weights, biases and masks.
#include "phasor/layers/attention_layer.h"

#include <set>

#include "layers/check_gradients.h"
#include "phasor/position/rope.h"
#include "support/seeds.h"

namespace phasor {
namespace {

using reference::LayerCall;

struct Case {
  AttentionLayerConfig config;
  std::int64_t batch = 2, queries = 7, keys = 7;
  bool own_keys = false, own_values = false;  // cross attention
  PositionPlan plan{};
  AttentionOptions options{};
  bool mask_gradient = false;
};

Matrix rows_of(const Values& values, std::int64_t channels) {
  return {values.size() / static_cast<std::size_t>(channels), static_cast<std::size_t>(channels), values};
}

class Check {
 public:
  explicit Check(Case c)
      : case_(std::move(c)),
        initial_(1),
        layer_(case_.config, initial_),
        weights_(layer_),
        query_(random_tensor<3>({case_.batch, case_.queries, case_.config.hidden_size}, 1)),
        key_(random_tensor<3>({case_.batch, case_.keys, case_.config.hidden_size}, 2)),
        value_(random_tensor<3>(key_.shape(), 3)),
        grad_y_(random_tensor<3>(query_.shape(), 4)) {}

  void run() {
    step();
    const reference::LayerResult expected = forward(leaf_values());
    const std::vector<Differences> slopes = slopes_of(
        leaves_, [&](const std::vector<Values>& at) { return product(values_of(grad_y_), forward(at).y.values); });
    on_every_target([&] {
      expect_near("y", step(), expected.y.values, tolerance(expected.y.values, terms()));
      expect_near("weights", values_of(attention_weights_), expected.weights.values,
                  0x1p-24 * static_cast<double>(terms()));
      expect_gradients(leaves_, slopes, terms());
    });
  }

 private:
  // Of the longest chain of sums. Norms of heads sum their gradient over all heads of all tokens.
  std::int64_t terms() const {
    const AttentionHeads& h = layer_.heads();
    const std::int64_t rows = case_.batch * std::max(case_.queries, case_.keys) * (case_.config.qk_norm ? h.heads : 1);
    return 3 * h.channels + 2 * h.heads * h.head_dim + 2 * case_.keys + rows;
  }
  AttentionInputs inputs() const {
    AttentionInputs inputs{.query = query_.view()};
    if (case_.own_keys) inputs.key = key_.view();
    if (case_.own_values) inputs.value = value_.view();
    return inputs;
  }

  // Forward and backward; sets the leaves, returns y.
  Values step() {
    const AttentionHeads& h = layer_.heads();
    Tensor<float, 3> y = unwritten<3>(query_.shape());
    attention_weights_ = unwritten<4>({case_.batch, h.heads, case_.queries, case_.keys});
    layer_.forward(inputs(), case_.plan, case_.options, y.view(), &saved_, workspace_, attention_weights_.view());
    weights_.begin();
    Tensor<float, 3> grad_query = unwritten<3>(query_.shape()), grad_key = unwritten<3>(key_.shape()),
                     grad_value = unwritten<3>(key_.shape());
    Tensor<float, 4> grad_mask = unwritten<4>(case_.options.mask.added.shape);
    PlanGradient grad_plan;
    if (case_.plan.bias) grad_plan.bias = Tensor<float, 2>(case_.plan.bias->table.shape());
    if (case_.plan.bias) std::fill(grad_plan.bias->begin(), grad_plan.bias->end(), LayerWeights::kBefore);
    AttentionInputGradients grads{.query = grad_query.view()};
    if (case_.own_keys) grads.key = grad_key.view();
    if (case_.own_values) grads.value = grad_value.view();
    layer_.backward(saved_, grad_y_.view(), grads, &grad_plan, workspace_,
                    case_.mask_gradient ? grad_mask.view() : TensorView<float, 4>());
    leaves_ = {{"query", values_of(query_), values_of(grad_query)}};
    if (case_.own_keys) leaves_.push_back({"key", values_of(key_), values_of(grad_key)});
    if (case_.own_values) leaves_.push_back({"value", values_of(value_), values_of(grad_value)});
    if (case_.plan.bias) {
      Values found = values_of(*grad_plan.bias);
      for (double& each : found) each -= static_cast<double>(LayerWeights::kBefore);
      leaves_.push_back({"plan.bias", values_of(case_.plan.bias->table), std::move(found)});
    }
    if (case_.mask_gradient)
      leaves_.push_back({"mask", reference::read<double>(case_.options.mask.added).values, values_of(grad_mask)});
    first_weight_ = leaves_.size();
    weights_.append_to(leaves_);
    return values_of(y);
  }

  std::vector<Values> leaf_values() const {
    std::vector<Values> at;
    for (const Leaf& leaf : leaves_) at.push_back(leaf.at);
    return at;
  }

  reference::LayerResult forward(const std::vector<Values>& at) const {
    const auto leaf = [&](const char* name) -> const Values* {
      for (std::size_t i = 0; i < leaves_.size(); i++)
        if (leaves_[i].name == name) return &at[i];
      return nullptr;
    };
    AttentionOptions options = case_.options;
    options.dropout = case_.config.dropout;
    LayerCall call = reference::layer_call(layer_.heads(), options, case_.plan, case_.batch, case_.queries, case_.keys);
    call.eps = case_.config.norm_eps;
    if (const Values* bias = leaf("plan.bias")) call.attention.relative_bias->values = *bias;
    if (const Values* mask = leaf("mask")) call.attention.mask->values = *mask;
    const std::int64_t channels = case_.config.hidden_size;
    const Matrix query = rows_of(*leaf("query"), channels);
    const Matrix key = case_.own_keys ? rows_of(*leaf("key"), channels) : query;
    const Matrix value = case_.own_values ? rows_of(*leaf("value"), channels) : key;
    return reference::attention_layer(weights_.read(at, first_weight_), "", call, query, key, value);
  }

  Case case_;
  InitialValues initial_;
  AttentionLayer layer_;
  LayerWeights weights_;
  Tensor<float, 3> query_, key_, value_, grad_y_;
  Tensor<float, 4> attention_weights_;
  AttentionLayer::Saved saved_;
  Workspace workspace_;
  std::vector<Leaf> leaves_;
  std::size_t first_weight_ = 0;
};

const AttentionLayerConfig kPlain{.hidden_size = 24, .num_attention_heads = 3, .attention_bias = true};
const AttentionLayerConfig kQwen{.hidden_size = 20,
                                 .num_attention_heads = 4,
                                 .num_key_value_heads = 2,
                                 .head_dim = 6,
                                 .qk_norm = true,
                                 .norm_eps = 1e-3};
constexpr ModelShape kPlainShape{.heads = 3, .head_dim = 8, .model_dim = 24, .max_length = 50};
constexpr ModelShape kQwenShape{.heads = 4, .head_dim = 6, .model_dim = 20, .max_length = 50};

TEST(AttentionLayer, EveryEncoding) {
  for (const Encoding& row : encodings())
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::string(row.name) + (causal ? ", causal" : ""));
      Check({.config = kPlain, .plan = default_plan(row.name, kPlainShape, 7, 7), .options = {.causal = causal}}).run();
    }
}

TEST(AttentionLayer, EveryEncodingWithGroupedQueriesAndNorms) {
  for (const Encoding& row : encodings()) {
    SCOPED_TRACE(row.name);
    Check({.config = kQwen,
           .batch = 1,
           .queries = 37,
           .keys = 37,
           .plan = default_plan(row.name, kQwenShape, 37, 37),
           .options = {.causal = true, .window = 9}})
        .run();
  }
}

TEST(AttentionLayer, CrossAttention) {
  for (const std::int64_t queries : {1, 5, 13})
    for (const bool own_values : {false, true}) {
      SCOPED_TRACE(std::to_string(queries) + " queries, own values: " + std::to_string(own_values));
      Check({.config = kPlain,
             .queries = queries,
             .keys = 9,
             .own_keys = true,
             .own_values = own_values,
             .plan = default_plan("rope", kPlainShape, queries, 9)})
          .run();
    }
}

// Values may differ from keys that are the queries.
TEST(AttentionLayer, OwnValuesOnly) { Check({.config = kPlain, .own_values = true}).run(); }

TEST(AttentionLayer, Masks) {
  const Tensor<float, 4> full = random_tensor<4>({2, 3, 7, 9}, 8), by_key = random_tensor<4>({2, 1, 1, 9}, 9);
  for (const Tensor<float, 4>* mask : {&full, &by_key}) {
    SCOPED_TRACE(mask->size());
    Check({.config = kPlain,
           .keys = 9,
           .own_keys = true,
           .plan = default_plan("relative", kPlainShape, 7, 9),
           .options = {.mask = mask->view()},
           .mask_gradient = true})
        .run();
  }
}

TEST(AttentionLayer, LengthsAndVisibleKeys) {
  const std::vector<std::int64_t> lengths{4, 9};
  Tensor<bool, 4> visible({1, 1, 7, 9});
  for (std::int64_t i = 0; i < 7; i++)
    for (std::int64_t j = 0; j < 9; j++) visible(0, 0, i, j) = (i + j) % 3 != 0;
  Check({.config = kPlain,
         .keys = 9,
         .own_keys = true,
         .own_values = true,
         .options = {.key_lengths = lengths, .mask = visible.view()}})
      .run();
}

TEST(AttentionLayer, SoftcapAndPartialRotation) {
  const RopeConfig rope{.head_dim = 8, .rotary_dim = 4, .pairing = Pairing::adjacent};
  Check({.config = kPlain, .plan = plan_of(rope, kPlainShape, 7, 7), .options = {.causal = true, .softcap = 2.0}})
      .run();
}

TEST(AttentionLayer, Dropout) {
  AttentionLayerConfig config = kQwen;
  config.dropout = 0.3;
  Check({.config = config, .plan = default_plan("rope", kQwenShape, 7, 7), .options = {.seed = 77}}).run();
}

// Sizes and options at random, each case by a seed of its own.
TEST(AttentionLayer, RandomCases) {
  for (const std::uint32_t seed : seeds({.count = 40})) {
    SCOPED_TRACE(repeat_seed(seed));
    std::uint64_t drawn = 0;
    const Philox random(seed, 9);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(random.block(drawn++)[0] % static_cast<std::uint64_t>(high - low + 1));
    };
    const std::int64_t key_heads = pick(1, 3), group = pick(1, 3), width = 2 * pick(1, 9), batch = pick(1, 3);
    const std::int64_t queries = pick(1, 40), keys = pick(0, 1) ? queries : pick(1, 40);
    const ModelShape shape{
        .heads = key_heads * group, .head_dim = width, .model_dim = 2 * pick(1, 15), .max_length = 50};
    Case c{.config = {.hidden_size = shape.model_dim,
                      .num_attention_heads = shape.heads,
                      .num_key_value_heads = key_heads,
                      .head_dim = width,
                      .attention_bias = pick(0, 1) == 1,
                      .qk_norm = pick(0, 1) == 1,
                      .norm_eps = 1e-3,
                      .dropout = pick(0, 3) ? 0.0 : 0.2},
           .batch = batch,
           .queries = queries,
           .keys = keys,
           .own_keys = keys != queries || pick(0, 1) == 1,
           .own_values = pick(0, 2) == 0,
           .plan = default_plan(encodings()[static_cast<std::size_t>(drawn + seed) % encodings().size()].name, shape,
                                queries, keys),
           .options = {.causal = pick(0, 1) == 1, .seed = seed}};
    if (pick(0, 2) == 0) c.options.window = Window(pick(1, 9), pick(1, 9));
    const Tensor<float, 4> mask = random_tensor<4>(
        {pick(0, 1) ? batch : 1, pick(0, 1) ? shape.heads : 1, pick(0, 1) ? queries : 1, pick(0, 1) ? keys : 1}, seed);
    c.mask_gradient = pick(0, 1) == 1;
    if (c.mask_gradient) c.options.mask = mask.view();
    std::vector<std::int64_t> lengths;
    for (std::int64_t b = 0; b < batch; b++) lengths.push_back(pick(0, keys));
    if (pick(0, 3) == 0) c.options.key_lengths = lengths;
    Check(std::move(c)).run();
  }
}

// Without `saved` nothing is dropped, and the numbers are those of the call that saves.
// With more queries than the decode kernel takes: a training never uses it, and it rounds otherwise.
TEST(AttentionLayer, InferenceIsTrainingWithoutDropout) {
  InitialValues initial(1), same(1);
  AttentionLayerConfig config = kQwen;
  const AttentionLayer layer(config, initial);
  config.dropout = 0.5;
  const AttentionLayer dropping(config, same);
  const Tensor<float, 3> x = random_tensor<3>({2, 33, 20}, 1);
  const PositionPlan plan = default_plan("rope", kQwenShape, 33, 33);
  Tensor<float, 3> trained(x.shape()), inferred(x.shape()), dropped(x.shape());
  AttentionLayer::Saved saved;
  Workspace workspace;
  layer.forward({.query = x.view()}, plan, {}, trained.view(), &saved, workspace);
  layer.forward({.query = x.view()}, plan, {}, inferred.view(), nullptr, workspace);
  EXPECT_TRUE(std::ranges::equal(trained, inferred));
  dropping.forward({.query = x.view()}, plan, {}, inferred.view(), nullptr, workspace);
  EXPECT_TRUE(std::ranges::equal(trained, inferred));
  dropping.forward({.query = x.view()}, plan, {}, dropped.view(), &saved, workspace);
  EXPECT_FALSE(std::ranges::equal(trained, dropped));
}

TEST(AttentionLayer, WeightsGoByNames) {
  InitialValues initial(1);
  AttentionLayerConfig config = kQwen;
  config.attention_bias = true;
  AttentionLayer layer(config, initial);
  NamedWeights weights;
  layer.list_weights("layers.0.attention", weights);
  std::set<std::string> names;
  for (const NamedWeight& each : weights) names.insert(each.name.substr(std::string("layers.0.attention.").size()));
  EXPECT_EQ(names,
            (std::set<std::string>{"q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias", "v_proj.weight",
                                   "v_proj.bias", "o_proj.weight", "o_proj.bias", "q_norm.weight", "k_norm.weight"}));
  EXPECT_EQ(weights[2].weight->shape(), (std::vector<std::int64_t>{12, 20}));  // k_proj: G * D rows
}

// Empty batches and texts are legal.
TEST(AttentionLayer, NothingToDo) {
  InitialValues initial(1);
  AttentionLayer layer(kPlain, initial);
  const PositionPlan plan;  // saved refers to it
  for (const Shape<3>& shape : {Shape<3>{0, 3, 24}, Shape<3>{2, 0, 24}}) {
    Tensor<float, 3> x(shape), y(shape);
    Workspace workspace;
    AttentionLayer::Saved saved;
    layer.forward({.query = x.view()}, plan, {}, y.view(), &saved, workspace);
    layer.backward(saved, y.view(), {.query = x.view()}, nullptr, workspace);
  }
}

}  // namespace
}  // namespace phasor
