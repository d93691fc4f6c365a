// The registry: every row keeps its contract, and each encoding its formula.
#include "phasor/position/encoding.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "phasor/core/random.h"
#include "phasor/position/alibi.h"
#include "phasor/position/learned.h"
#include "phasor/position/relative.h"
#include "phasor/position/rope.h"
#include "phasor/position/sinusoidal.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

constexpr ModelShape kShape{.heads = 3, .head_dim = 8, .model_dim = 24, .max_length = 50};

// Two sequences at different places: [1, 2, T].
Tensor<std::int64_t, 3> two_sequences(std::int64_t tokens) {
  Tensor<std::int64_t, 3> positions({1, 2, tokens});
  for (std::int64_t t = 0; t < tokens; t++) {
    positions(0, 0, t) = t;
    positions(0, 1, t) = 7 + 2 * t;
  }
  return positions;
}

PositionPlan lower_alone(const EncodingConfig& config, const Placement& placement) {
  return lower(config, parameters(config, placement.shape), placement);
}

// All encodings with something to learn, in each of their forms.
std::vector<EncodingConfig> learning_configs() {
  return {LearnedConfig{.max_length = 50},
          AlibiConfig{.learnable = true},
          AlibiConfig{.causal = true, .learnable = true},
          T5Config{},
          T5Config{.buckets = 8, .max_distance = 10, .bidirectional = false},
          RelativeConfig{.max_distance = 4}};
}

// ---- the contract ----

TEST(Encodings, EveryRowIsWhole) {
  std::set<std::string_view> names;
  for (const Encoding& row : encodings()) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second) << "twice";
    EXPECT_EQ(&encoding(row.name), &row);
    EXPECT_FALSE(row.formula.empty() || row.acts_on.empty() || row.source.empty() || row.gradient.empty());
    const EncodingConfig config = row.defaults(kShape);
    EXPECT_EQ(config.name(), row.name);
    EXPECT_FALSE(describe(config).empty());
    const Tensor<std::int64_t, 3> positions = consecutive_positions(17);
    const PositionPlan plan = lower_alone(config, {.queries = positions.view(), .shape = kShape});
    EXPECT_EQ(plan.add.has_value() + plan.rotate_q.has_value() + plan.bias.has_value(), row.name == "none" ? 0 : 1);
    EXPECT_NEAR(plan.score_scale.value(), row.name == "t5" ? 1.0 : 1.0 / std::sqrt(8.0), 1e-12);
  }
  EXPECT_GE(names.size(), 7u);
  EXPECT_ERROR(encoding("ropee"), "\"ropee\"", "none, learned");
}

// An encoding that says it learns has weights, and the others have none.
TEST(Encodings, SayWhetherTheyLearn) {
  std::vector<EncodingConfig> configs = learning_configs();
  for (const Encoding& row : encodings()) configs.push_back(row.defaults(kShape));
  for (const EncodingConfig& config : configs)
    EXPECT_EQ(learns(config), !parameters(config, kShape).empty()) << describe(config);
}

// The longest sequence can be placed, and one more token cannot.
TEST(Encodings, SayHowFarTheyReach) {
  for (const Encoding& row : encodings()) {
    const EncodingConfig config = row.defaults(kShape);
    const std::optional<std::int64_t> most = longest(config);
    EXPECT_EQ(most.has_value(), row.name == "learned") << row.name;
    const Tensor<std::int64_t, 3> all = consecutive_positions(most.value_or(1000));
    lower_alone(config, {.queries = all.view(), .shape = kShape});
    if (!most) continue;
    EXPECT_EQ(*most, kShape.max_length);
    const Tensor<std::int64_t, 3> more = consecutive_positions(*most + 1);
    EXPECT_ERROR(lower_alone(config, {.queries = more.view(), .shape = kShape}), "position: 50");
  }
}

TEST(Encodings, EmptySequencesAreLegal) {
  const Tensor<std::int64_t, 3> none = consecutive_positions(0);
  for (const Encoding& row : encodings()) lower_alone(row.defaults(kShape), {.queries = none.view(), .shape = kShape});
}

// The loss <G, plan> with fixed random G: its gradient by every parameter is known from central differences.
double loss(const PositionPlan& plan, const PlanGradient& g) {
  double sum = 0;
  if (plan.add)
    for (std::int64_t i = 0; i < plan.add->size(); i++)
      sum += static_cast<double>(plan.add->data()[i]) * g.add->data()[i];
  if (plan.bias)
    for (std::int64_t i = 0; i < plan.bias->table.size(); i++)
      sum += static_cast<double>(plan.bias->table.data()[i]) * g.bias->data()[i];
  return sum;
}

PlanGradient random_gradient(const PositionPlan& plan) {
  PlanGradient g;
  if (plan.add) Philox(11).fill_normal(g.add.emplace(plan.add->shape()));
  if (plan.bias) Philox(12).fill_normal(g.bias.emplace(plan.bias->table.shape()));
  return g;
}

TEST(Encodings, GradientsEqualCentralDifferences) {
  const Tensor<std::int64_t, 3> queries = two_sequences(17), keys = consecutive_positions(29);
  for (const EncodingConfig& config : learning_configs()) {
    SCOPED_TRACE(describe(config));
    const Placement placement{.queries = queries.view(), .keys = keys.view(), .shape = kShape};
    std::vector<Weight> weights = parameters(config, kShape, 3);
    for (Weight& weight : weights) Philox(4).fill_normal(weight.value());
    const PlanGradient g = random_gradient(lower(config, weights, placement));
    lower_backward(config, weights, placement, g);

    ASSERT_FALSE(weights.empty());
    double largest = 0;
    for (Weight& weight : weights)
      for (std::size_t i = 0; i < weight.value().size(); i++) {
        float& value = weight.value()[i];
        const float original = value, step = 0.5f;  // the plan is linear in its parameters: a large step is exact
        value = original + step;
        const double above = loss(lower(config, weights, placement), g);
        value = original - step;
        const double below = loss(lower(config, weights, placement), g);
        value = original;
        const double expected = above - below;
        largest = std::max(largest, std::fabs(expected));
        ASSERT_NEAR(weight.gradient()[i], expected, 2e-5 * (1.0 + std::fabs(expected))) << "parameter " << i;
      }
    EXPECT_GT(largest, 0.1);
  }
}

TEST(Encodings, GradientsAreAddedTo) {
  const Tensor<std::int64_t, 3> positions = two_sequences(5);
  const EncodingConfig config = LearnedConfig{.max_length = 50};
  const Placement placement{.queries = positions.view(), .shape = kShape};
  std::vector<Weight> once = parameters(config, kShape), twice = once;
  const PlanGradient g = random_gradient(lower(config, once, placement));
  lower_backward(config, once, placement, g);
  for (int i = 0; i < 2; i++) lower_backward(config, twice, placement, g);
  for (std::size_t i = 0; i < once[0].gradient().size(); i++)
    EXPECT_EQ(twice[0].gradient()[i], 2 * once[0].gradient()[i]);
}

// ---- add ----

TEST(Learned, AddsItsRows) {
  const EncodingConfig config = LearnedConfig{.max_length = 50};
  const std::vector<Weight> weights = parameters(config, kShape, 9);
  const Tensor<std::int64_t, 3> positions = two_sequences(17);
  const PositionPlan plan = lower(config, weights, {.queries = positions.view(), .shape = kShape});
  ASSERT_EQ(plan.add->shape(), (Shape<3>{2, 17, 24}));
  EXPECT_EQ((*plan.add)(1, 3, 5), weights[0].matrix()(13, 5));
  EXPECT_NE(weights[0].matrix()(13, 5), 0.0f);
}

TEST(Learned, PositionPastTheTableNamesBothNumbers) {
  const EncodingConfig config = LearnedConfig{.max_length = 50};
  for (const std::int64_t bad : {50, -1}) {
    const Tensor<std::int64_t, 3> positions = consecutive_positions(1, bad);
    EXPECT_ERROR(lower_alone(config, {.queries = positions.view(), .shape = kShape}),
                 "position: " + std::to_string(bad), "50 rows");
  }
}

TEST(Sinusoidal, IsItsFormula) {
  const Tensor<float, 2> table = sinusoidal_table(100, 64);
  for (const std::int64_t position : {0, 1, 50, 99})
    for (std::int64_t i = 0; i < 32; i++) {
      const double angle = static_cast<double>(position) / std::pow(10000.0, 2.0 * static_cast<double>(i) / 64.0);
      EXPECT_NEAR(table(position, 2 * i), std::sin(angle), 6e-8);
      EXPECT_NEAR(table(position, 2 * i + 1), std::cos(angle), 6e-8);
    }
  EXPECT_ERROR(sinusoidal_table(4, 7), "dim: 7", "even");
  EXPECT_ERROR(sinusoidal_table(-4, 8), "length: -4");
}

// PE(p + k) = M_k PE(p) with one M_k for all p: each (sin, cos) pair is rotated by k w.
TEST(Sinusoidal, AShiftIsALinearMap) {
  const Tensor<float, 2> table = sinusoidal_table(2000, 64);
  for (const std::int64_t k : {1, 17, 987})
    for (std::int64_t position = 0; position + k < 2000; position += 37)
      for (std::int64_t i = 0; i < 32; i++) {
        const double turn = static_cast<double>(k) * std::pow(10000.0, -2.0 * static_cast<double>(i) / 64.0);
        const double s = table(position, 2 * i), c = table(position, 2 * i + 1);
        ASSERT_NEAR(table(position + k, 2 * i), std::cos(turn) * s + std::sin(turn) * c, 3e-7);
        ASSERT_NEAR(table(position + k, 2 * i + 1), std::cos(turn) * c - std::sin(turn) * s, 3e-7);
      }
}

// A table that is added begins as large as the embeddings it is added to.
TEST(AddedTables, BeginAsLargeAsTheEmbeddings) {
  ModelShape shape = kShape;
  shape.model_dim = 256;
  shape.max_length = 512;
  shape.embedding_deviation = 0.05;
  const Tensor<std::int64_t, 3> positions = consecutive_positions(512);
  for (const char* name : {"learned", "sinusoidal"}) {
    const EncodingConfig config = encoding(name).defaults(shape);
    const PositionPlan plan = lower_alone(config, {.queries = positions.view(), .shape = shape});
    const double squares = std::inner_product(plan.add->begin(), plan.add->end(), plan.add->begin(), 0.0);
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(plan.add->size())), 0.05, 0.001) << name;
  }
  EXPECT_EQ(encoding("sinusoidal").defaults(kShape).as<SinusoidalConfig>().amplitude, 1.0);
  EXPECT_ERROR(lower_alone(SinusoidalConfig{.amplitude = 0.0}, {.queries = positions.view(), .shape = shape}),
               "[sinusoidal]", "amplitude: 0");
}

// ---- bias ----

float bias_at(const RelativeBias& bias, std::int64_t h, std::int64_t distance) {
  const std::int64_t span = bias.table.shape()[1];
  return bias.table(h, std::clamp<std::int64_t>(distance - bias.first_distance, 0, span - 1));
}

TEST(Alibi, SlopesOfTheAuthors) {
  EXPECT_EQ(alibi_slopes(8),
            (std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f, 0.0078125f, 0.00390625f}));
  EXPECT_EQ(alibi_slopes(6), (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  const std::vector<float> twelve = alibi_slopes(12);
  const double last[] = {0.707107, 0.353553, 0.176777, 0.088388};
  for (std::size_t i = 0; i < 4; i++) EXPECT_NEAR(twelve[8 + i], last[i], 5e-7);
}

// The same slopes by MPT's construction: those of the next power of two, odd ones first, cut to n.
TEST(Alibi, SlopesForAnyNumberOfHeads) {
  for (std::int64_t n = 1; n <= 129; n++) {
    std::int64_t power = 1;
    while (power < n) power *= 2;
    std::vector<double> all, chosen;
    for (std::int64_t i = 1; i <= power; i++)
      all.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
    if (power == n) {
      chosen = all;
    } else {
      for (std::size_t i = 1; i < all.size(); i += 2) chosen.push_back(all[i]);
      for (std::size_t i = 0; i < all.size(); i += 2) chosen.push_back(all[i]);
      chosen.resize(static_cast<std::size_t>(n));
    }
    const std::vector<float> slopes = alibi_slopes(n);
    ASSERT_EQ(slopes.size(), chosen.size());
    for (std::size_t h = 0; h < slopes.size(); h++)
      EXPECT_NEAR(slopes[h], chosen[h], 1e-7 * chosen[h]) << n << ' ' << h;
  }
  EXPECT_ERROR(alibi_slopes(0), "heads: 0");
}

TEST(Alibi, SymmetricAndCausal) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(17, 100);
  const std::vector<float> slopes = alibi_slopes(3);
  const Placement placement{.queries = positions.view(), .shape = kShape};
  const PositionPlan symmetric = lower_alone(AlibiConfig{}, placement);
  const PositionPlan causal = lower_alone(AlibiConfig{.causal = true}, placement);
  for (std::int64_t h = 0; h < 3; h++)
    for (std::int64_t d = -16; d <= 16; d++) {
      const float expected = -slopes[static_cast<std::size_t>(h)] * static_cast<float>(std::abs(d));
      EXPECT_EQ(bias_at(*symmetric.bias, h, d), expected);
      EXPECT_EQ(bias_at(*causal.bias, h, d), d <= 0 ? expected : 0.0f);
    }
  EXPECT_EQ(symmetric.bias->table.shape()[1], 33);
  EXPECT_EQ(causal.bias->table.shape()[1], 17);
}

TEST(T5, SpotBuckets) {
  const std::pair<std::int64_t, std::int64_t> both[] = {{8, 8},   {11, 8},  {12, 9},  {16, 10}, {22, 10}, {23, 11},
                                                        {32, 12}, {45, 12}, {46, 13}, {64, 14}, {90, 14}, {91, 15}};
  for (const auto& [distance, bucket] : both) {
    EXPECT_EQ(t5_bucket(-distance, {}), bucket);
    EXPECT_EQ(t5_bucket(distance, {}), bucket + 16);
  }
  const std::pair<std::int64_t, std::int64_t> causal[] = {{16, 16}, {22, 18}, {32, 21}, {46, 24},
                                                          {64, 26}, {90, 29}, {127, 31}};
  for (const auto& [distance, bucket] : causal) EXPECT_EQ(t5_bucket(-distance, {.bidirectional = false}), bucket);
  EXPECT_EQ(t5_bucket(0, {}), 0);
  EXPECT_EQ(t5_bucket(5, {.bidirectional = false}), 0);
  EXPECT_EQ(t5_bucket(-100'000, {}), 15);
  EXPECT_EQ(t5_bucket(std::numeric_limits<std::int64_t>::min(), {}), 15);
  EXPECT_ERROR(t5_bucket(1, {.buckets = 7}), "buckets: 7", "multiple of 4");
  EXPECT_ERROR(t5_bucket(1, {.max_distance = 8}), "max_distance: 8", "above 8");
}

// Distances past the last one that matters cost nothing: the table ends there.
TEST(T5, TablesEndWhereNothingChanges) {
  const Tensor<std::int64_t, 3> query = consecutive_positions(1, 999'999), keys = consecutive_positions(1'000'000);
  const Placement placement{.queries = query.view(), .keys = keys.view(), .shape = kShape};
  for (const bool bidirectional : {true, false}) {
    const EncodingConfig config = T5Config{.bidirectional = bidirectional};
    std::vector<Weight> weights = parameters(config, kShape);
    Philox(1).fill_normal(weights[0].value());
    const PositionPlan plan = lower(config, weights, placement);
    EXPECT_EQ(plan.bias->table.shape()[1], 129);
    for (const std::int64_t distance : {0, -1, -90, -127, -128, -129, -999'999})
      EXPECT_EQ(bias_at(*plan.bias, 2, distance),
                weights[0].matrix()(t5_bucket(distance, {.bidirectional = bidirectional}), 2));
  }
}

TEST(Relative, ClampsAtItsEnds) {
  const EncodingConfig config = RelativeConfig{.max_distance = 2};
  std::vector<Weight> weights = parameters(config, kShape);
  ASSERT_EQ(weights[0].matrix().shape, (Shape<2>{3, 5}));
  std::iota(weights[0].value().begin(), weights[0].value().end(), 0.0f);
  const Tensor<std::int64_t, 3> positions = consecutive_positions(9);
  const PositionPlan plan = lower(config, weights, {.queries = positions.view(), .shape = kShape});
  EXPECT_EQ(bias_at(*plan.bias, 1, -8), 5.0f);
  EXPECT_EQ(bias_at(*plan.bias, 1, -1), 6.0f);
  EXPECT_EQ(bias_at(*plan.bias, 1, 0), 7.0f);
  EXPECT_EQ(bias_at(*plan.bias, 1, 8), 9.0f);
}

// ---- rotate ----

TEST(RopeEncoding, QueriesAndKeysShareTheLength) {
  RopeConfig rope{.head_dim = 8, .max_position_embeddings = 16};
  rope.scaling = {.type = "dynamic", .factor = 2.0};
  const Tensor<std::int64_t, 3> queries = consecutive_positions(4), keys = consecutive_positions(64);
  const PositionPlan plan = lower_alone(rope, {.queries = queries.view(), .keys = keys.view(), .shape = kShape});
  const RotaryView q(*plan.rotate_q), k(*plan.key_rotation());
  EXPECT_EQ(k.cos.shape[2], 64);
  for (std::int64_t i = 0; i < 4; i++) EXPECT_EQ(q.cos(0, 0, 3, i), k.cos(0, 0, 3, i));
  const PositionPlan alone = lower_alone(rope, {.queries = queries.view(), .shape = kShape});
  EXPECT_NE(RotaryView(*alone.rotate_q).cos(0, 0, 3, 1), q.cos(0, 0, 3, 1));
  EXPECT_EQ(alone.key_rotation(), &*alone.rotate_q);
}

// ---- bad input ----

TEST(Encodings, RefuseWhatDoesNotFit) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(4), axes({2, 1, 4});
  const Placement placement{.queries = positions.view(), .shape = kShape};
  EXPECT_ERROR(lower(T5Config{}, {}, placement), "t5", "0 parameters", "expected 1");
  const std::vector<Weight> wrong{Weight("buckets", {32, 4})};
  EXPECT_ERROR(lower(T5Config{}, wrong, placement), "[32, 4]", "expected [32, 3]");
  EXPECT_ERROR(lower_alone(AlibiConfig{}, {.queries = axes.view(), .shape = kShape}), "2 axes", "expected 1");
  EXPECT_ERROR(lower_alone(RopeConfig{.head_dim = 16}, placement), "head_dim: 16", "the model's 8");
  EXPECT_ERROR(lower_alone(RopeConfig{.head_dim = 4}, placement), "head_dim: 4", "the model's 8");
  std::vector<Weight> table = parameters(T5Config{}, kShape);
  EXPECT_ERROR(lower_backward(T5Config{}, table, placement, {}), "gradient.bias is missing", "[3, 7]");
  // Parameters that are not the encoding's own are refused before anything is written.
  PlanGradient g;
  g.bias.emplace(Shape<2>{3, 7});
  g.add.emplace(Shape<3>{1, 4, 24});
  std::vector<Weight> small{Weight("table", {1, 1})};
  for (const EncodingConfig& config : learning_configs()) {
    EXPECT_ERROR(lower_backward(config, small, placement, g), "[1, 1]", "expected [");
    EXPECT_EQ(small[0].gradient()[0], 0.0f);
    EXPECT_ERROR(lower_backward(config, {}, placement, g), "0 parameters");
  }
  EXPECT_ERROR(EncodingConfig(AlibiConfig{}).as<T5Config>(), "alibi", "expected t5");
}

}  // namespace
}  // namespace phasor
