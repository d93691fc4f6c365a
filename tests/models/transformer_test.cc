#include "phasor/models/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "models/model_cases.h"
#include "phasor/core/parallel.h"
#include "phasor/layers/loss.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

constexpr std::int64_t kBatch = 2, kLength = 17;

// A model, tokens, and the loss of predicting each next token.
struct Step {
  Transformer model;
  Tensor<std::int32_t, 2> tokens;
  std::vector<std::int32_t> targets;
  Tensor<float, 3> logits, grad_logits;
  Transformer::Saved saved;
  Workspace workspace;

  // Fresh weights are so small that attention is nearly even: with `grown` ones positions and scores matter.
  enum Weights { fresh, grown };

  explicit Step(const TransformerConfig& config, std::uint64_t seed = 5, Weights weights = fresh)
      : model(config, seed),
        tokens(random_tokens({kBatch, kLength}, config.vocab_size, 3)),
        logits({kBatch, kLength, config.vocab_size}),
        grad_logits(logits.shape()) {
    for (std::int64_t i = 0; i < tokens.size(); i++)
      targets.push_back(i % kLength == kLength - 1 ? kIgnoredTarget : tokens.data()[i + 1]);
    if (weights == fresh) return;
    for (const NamedWeight& each : model.weights())
      if (each.weight->shape().size() == 2)
        for (float& value : each.weight->value()) value *= 12.0f;
  }

  double loss() {
    model.forward(tokens.view(), logits.view(), &saved, workspace);
    const Shape<2> rows{kBatch * kLength, logits.shape()[2]};
    return cross_entropy({logits.data(), rows}, targets, {.grad_logits = {grad_logits.data(), rows}}, workspace).loss;
  }

  double backward() {
    const double value = loss();
    model.clear_gradients();
    model.backward(saved, grad_logits.view(), workspace);
    return value;
  }
};

class EveryModel : public testing::TestWithParam<ModelCase> {};

TEST_P(EveryModel, BeginsNearTheLossOfGuessing) {
  Step step(GetParam().config);
  EXPECT_NEAR(step.loss(), std::log(29.0), 0.05 * std::log(29.0));
}

// The head reads mu, so that the last block's log_sigma leads nowhere.
bool leads_nowhere(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  return has("blocks.1.") && has("log_sigma") && (has("ffn") || has(".v_") || has(".o_"));
}

// Adds a seeded random vector of about this length.
void add_random(std::vector<double>& direction, double length) {
  const Philox random(17);
  const double scale = length / std::sqrt(static_cast<double>(direction.size()));
  for (std::size_t i = 0; i < direction.size(); i++) direction[i] += scale * static_cast<double>(random.normal(i));
}

// Along each weight's own gradient the loss must rise by its norm. A float loss of about 3 is right to 1e-6, and a step
// that changes it by about 1e-2 has an error of its own below one percent. A part of the gradient that is missing would
// not show along what is left of it: so also along the gradient and a random direction of the same length together,
// that the gradient knows nothing of.
TEST_P(EveryModel, GradientsAreSlopes) {
  Step step(GetParam().config, 5, Step::grown);
  step.backward();
  for (const NamedWeight& each : step.model.weights()) {
    const std::vector<float> gradient(each.weight->gradient().begin(), each.weight->gradient().end());
    const std::vector<float> value(each.weight->value().begin(), each.weight->value().end());
    const double norm = std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
    if (leads_nowhere(each.name)) {
      EXPECT_EQ(norm, 0) << each.name;
      continue;
    }
    ASSERT_GT(norm, 1e-5) << each.name << " has no gradient";
    const double size = std::sqrt(std::inner_product(value.begin(), value.end(), value.begin(), 0.0));
    const double distance = std::min(2e-3 / norm, 0.005 * std::max(size, 0.1));
    for (const bool random : {false, true}) {
      std::vector<double> direction(gradient.begin(), gradient.end());
      if (random) add_random(direction, norm);
      const double length = std::sqrt(std::inner_product(direction.begin(), direction.end(), direction.begin(), 0.0));
      const auto loss_at = [&](double way) {
        for (std::size_t i = 0; i < value.size(); i++)
          each.weight->value()[i] = static_cast<float>(value[i] + way / length * direction[i]);
        return step.loss();
      };
      const double slope = (loss_at(distance) - loss_at(-distance)) / (2 * distance);
      std::ranges::copy(value, each.weight->value().begin());
      const double expected = std::inner_product(gradient.begin(), gradient.end(), direction.begin(), 0.0) / length;
      EXPECT_NEAR(slope, expected, 0.01 * norm + 1e-6 / distance) << each.name << (random ? ", random" : "");
    }
  }
}

// What forward saved may be moved, as in a vector that grows, before backward reads it.
TEST_P(EveryModel, SavedMayBeMoved) {
  const auto gradients = [&](bool move) {
    Step step(GetParam().config, 5, Step::grown);
    step.loss();
    Transformer::Saved moved;
    if (move) moved = std::move(step.saved), step.saved = {};
    step.model.backward(move ? moved : step.saved, step.grad_logits.view(), step.workspace);
    std::vector<float> all;
    for (const NamedWeight& each : step.model.weights())
      all.insert(all.end(), each.weight->gradient().begin(), each.weight->gradient().end());
    return all;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST_P(EveryModel, DecodingEqualsTheWholeSequence) {
  Step step(GetParam().config, 5, Step::grown);
  step.loss();
  for (const CachedKeys keys : {CachedKeys::rotated, CachedKeys::unrotated}) {
    Transformer::Cache cache = step.model.make_cache({.batch = kBatch, .capacity = kLength, .keys = keys});
    Tensor<float, 2> logits({kBatch, 29});
    for (std::int64_t first = 0; first < kLength;) {
      const std::int64_t count = first == 0 ? 5 : 1;
      step.model.decode(step.tokens.view().slice(1, first, count), cache, logits.view(), step.workspace);
      first += count;
      for (std::int64_t b = 0; b < kBatch; b++)
        for (std::int64_t v = 0; v < 29; v++)
          ASSERT_NEAR(logits(b, v), step.logits(b, first - 1, v), 1e-5) << "after " << first << " tokens";
    }
    EXPECT_EQ(cache.length(), kLength);
  }
}

TEST_P(EveryModel, ThreadsChangeNoBit) {
  std::vector<float> expected;
  for (const int threads : {1, 2, 3, 5}) {
    set_num_threads(threads);
    Step step(GetParam().config);
    step.backward();
    std::vector<float> all(step.logits.begin(), step.logits.end());
    for (const NamedWeight& each : step.model.weights())
      all.insert(all.end(), each.weight->gradient().begin(), each.weight->gradient().end());
    if (expected.empty()) expected = all;
    EXPECT_EQ(std::memcmp(all.data(), expected.data(), all.size() * sizeof(float)), 0) << threads << " threads";
  }
  set_num_threads(0);
}

INSTANTIATE_TEST_SUITE_P(Encodings, EveryModel, testing::ValuesIn(model_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(Transformer, EqualSeedsMakeEqualModelsAndOthersDoNot) {
  const TransformerConfig config = model_cases()[0].config;
  Step a(config, 7), b(config, 7), c(config, 8);
  EXPECT_EQ(a.loss(), b.loss());
  EXPECT_NE(a.loss(), c.loss());
}

// What is read from a file is not drawn first: 135 million numbers take six seconds.
TEST(Transformer, WithZerosNothingIsDrawn) {
  for (const Score score : {Score::dot, Score::w2}) {
    TransformerConfig config{.vocab_size = 11,
                             .hidden_size = 8,
                             .num_hidden_layers = 2,
                             .num_attention_heads = 2,
                             .intermediate_size = 12,
                             .tie_word_embeddings = false};
    config.score = score;
    Transformer model = Transformer::with_zeros(config);
    for (const NamedWeight& each : model.weights()) {
      if (each.weight->shape().size() < 2) continue;  // norms and tau begin at 1
      EXPECT_EQ(std::ranges::count(each.weight->value(), 0.0f), each.weight->size()) << each.name;
    }
  }
}

TEST(Transformer, ABidirectionalModelSeesWhatComesLater) {
  TransformerConfig config = small_config(RopeConfig{.head_dim = 6}, Score::dot);
  for (const bool causal : {true, false}) {
    config.causal = causal;
    Step step(config);
    step.loss();
    const float before = step.logits(0, 0, 0);
    step.tokens(0, kLength - 1) = (step.tokens(0, kLength - 1) + 1) % 29;
    step.loss();
    EXPECT_EQ(step.logits(0, 0, 0) == before, causal);
  }
}

TEST(Transformer, UntiedHeadsQkNormAndWindowsHaveGradients) {
  TransformerConfig config = small_config(RopeConfig{.head_dim = 6}, Score::dot);
  config.tie_word_embeddings = false, config.qk_norm = true, config.sliding_window = 4, config.attention_bias = true;
  Step step(config);
  step.backward();
  for (const NamedWeight& each : step.model.weights()) {
    // A bias of keys adds the same to all scores of a query, which changes nothing; but it is rotated.
    const bool any = std::ranges::any_of(each.weight->gradient(), [](float g) { return std::fabs(g) > 1e-7f; });
    EXPECT_TRUE(any) << each.name;
  }
}

TEST(Transformer, ScalingsCanChangeAtInference) {
  Step step(small_config(RopeConfig{.head_dim = 6}, Score::dot));
  const double plain = step.loss();
  step.model.set_encoding(RopeConfig{.head_dim = 6, .scaling = {.type = "linear", .factor = 4.0}});
  EXPECT_NE(step.loss(), plain);
  EXPECT_ERROR(step.model.set_encoding(LearnedConfig{.max_length = 32}), "encoding: learned",
               "expected one that learns");
}

// Layers of one encoding share a plan, and a plan of unchanged positions is the one that was made first.
TEST(Transformer, PlansAreSharedAndKept) {
  Step step(shared_encoding(RopeConfig{.head_dim = 6}, AlibiConfig{.causal = true}, Score::dot), 5, Step::grown);
  const double loss = step.loss();
  const LayerPlans first = step.saved.plans;
  ASSERT_EQ(first.plans.size(), 2u);
  EXPECT_TRUE(first.plans[0]->rotate_q && first.plans[1]->bias);
  const auto plan_of = [&](std::size_t layer) { return &**std::get<0>(step.saved.layers[layer].block).attention.plan; };
  EXPECT_EQ(plan_of(0), &*first.plans[1]);
  EXPECT_EQ(plan_of(1), &*first.plans[0]);
  EXPECT_EQ(plan_of(2), &*first.plans[1]);
  EXPECT_EQ(step.loss(), loss);
  EXPECT_EQ(&*step.saved.plans.plans[0], &*first.plans[0]);
  // Other positions, other settings and a copy of the model with other settings have other plans.
  Transformer copy = step.model;
  step.model.forward(step.tokens.view(), step.logits.view(), &step.saved, step.workspace, {.first_position = 3});
  EXPECT_NE(&*step.saved.plans.plans[0], &*first.plans[0]);
  step.model.set_layer_encoding(0, NoneConfig{});
  EXPECT_NE(step.loss(), loss);
  EXPECT_FALSE(step.saved.plans.plans[1]->bias);
  std::swap(copy, step.model);
  EXPECT_EQ(step.loss(), loss);
  EXPECT_ERROR(step.model.set_layer_encoding(1, NoneConfig{}), "layer_encodings: index 1", "below 1");
}

// A plan of an encoding that learns is made anew, since its weights change.
TEST(Transformer, PlansThatLearnAreMadeAnew) {
  Step step(two_encodings(NoneConfig{}, T5Config{.bidirectional = false}, Score::dot), 5, Step::grown);
  const double loss = step.loss();
  for (const NamedWeight& each : step.model.weights())
    if (each.name == "layer_positions.0.buckets")
      std::iota(each.weight->value().begin(), each.weight->value().end(), 0.0f);
  EXPECT_NE(step.loss(), loss);
}

// Two lists of layers with equal settings are the model with these settings.
TEST(Transformer, ALayerEncodingIsWhatItsLayersHave) {
  const EncodingConfig alibi = AlibiConfig{.causal = true};
  TransformerConfig config = small_config(RopeConfig{.head_dim = 6}, Score::dot);
  config.layer_encodings = {{.layers = {0}, .encoding = alibi}, {.layers = {1}, .encoding = alibi}};
  Step listed(config, 5, Step::grown), plain(small_config(alibi, Score::dot), 5, Step::grown);
  EXPECT_EQ(listed.loss(), plain.loss());
}

TEST(Transformer, OneLayerWithAnglesOfTheLengthNeedsUnrotatedKeys) {
  RopeConfig dynamic{.head_dim = 6, .max_position_embeddings = 8};
  dynamic.scaling = {.type = "dynamic", .factor = 2.0};
  const Transformer model(two_encodings(RopeConfig{.head_dim = 6}, dynamic, Score::dot), 1);
  EXPECT_EQ(model.suitable_keys(8), CachedKeys::rotated);
  EXPECT_EQ(model.suitable_keys(9), CachedKeys::unrotated);
}

TEST(Transformer, EncodingsOfLayersAreDescribed) {
  TransformerConfig config = shared_encoding(LearnedConfig{.max_length = 32}, NoneConfig{}, Score::dot);
  EXPECT_EQ(config.describe_encodings(), "learned table of 32 positions; layers 0, 2: no position encoding");
  EXPECT_EQ(config.longest(), 32);
  config.encoding = NoneConfig{};
  EXPECT_EQ(config.longest(), std::nullopt);
}

TEST(Transformer, BadEncodingsOfLayersAreNamed) {
  TransformerConfig config = two_encodings(NoneConfig{}, LearnedConfig{.max_length = 32}, Score::dot);
  EXPECT_ERROR(Transformer(config, 1), "[Transformer]", "layer_encodings[0]: learned", "added to token embeddings");
  config.layer_encodings = {{.layers = {2}}};
  EXPECT_ERROR(Transformer(config, 1), "layer_encodings[0].layers: 2", "expected 0 to 1");
  config.layer_encodings = {{.layers = {1}}, {.layers = {0, 1}}};
  EXPECT_ERROR(Transformer(config, 1), "layer_encodings[1].layers: 1 again");
}

TEST(Transformer, WeightsOfOneLayer) {
  Step step(small_config(RopeConfig{.head_dim = 6}, Score::dot));
  Tensor<float, 4> weights({kBatch, 4, kLength, kLength});
  step.model.forward(step.tokens.view(), step.logits.view(), nullptr, step.workspace,
                     {.weights_layer = 1, .weights = weights.view()});
  const float* row = &weights(1, 3, kLength - 1, 0);
  EXPECT_NEAR(std::accumulate(row, row + kLength, 0.0), 1.0, 1e-6);
  for (const std::int64_t layer : {-1, 2})
    EXPECT_ERROR(step.model.forward(step.tokens.view(), step.logits.view(), nullptr, step.workspace,
                                    {.weights_layer = layer, .weights = weights.view()}),
                 "weights_layer: " + std::to_string(layer) + ", expected 0 to 1");
}

TEST(Transformer, OptionsThatWouldDoNothingAreNamed) {
  Step step(small_config(RopeConfig{.head_dim = 6}, Score::dot));
  EXPECT_ERROR(step.model.forward(step.tokens.view(), step.logits.view(), nullptr, step.workspace,
                                  {.token_types = step.tokens.view()}),
               "token_types: given to a model without type_vocab_size");
}

TEST(Transformer, NoSequencesAreNotDecoded) {
  const Transformer model(small_config(RopeConfig{.head_dim = 6}, Score::dot), 1);
  Transformer::Cache cache = model.make_cache({.batch = 0, .capacity = 4});
  const Tensor<std::int32_t, 2> tokens({0, 1});
  Tensor<float, 2> logits({0, 29});
  Workspace workspace;
  EXPECT_ERROR(model.decode(tokens.view(), cache, logits.view(), workspace), "tokens: [0, 1], expected at least one");
}

TEST(Transformer, BadInputIsNamed) {
  TransformerConfig config = small_config(NoneConfig{}, Score::dot);
  config.num_hidden_layers = 0;
  EXPECT_ERROR(Transformer(config, 1), "[Transformer]", "num_hidden_layers: 0");
  config = small_config(NoneConfig{}, Score::w2), config.qk_norm = true;
  EXPECT_ERROR(Transformer(config, 1), "qk_norm");
  Step step(small_config(LearnedConfig{.max_length = 16}, Score::dot));
  EXPECT_ERROR(step.loss(), "16");
  Step other(small_config(NoneConfig{}, Score::dot));
  EXPECT_ERROR(other.model.backward(other.saved, other.grad_logits.view(), other.workspace), "[Transformer]",
               "saved: empty");
  other.tokens(1, 3) = 29;
  EXPECT_ERROR(other.loss(), "29");
  Transformer::Cache cache = other.model.make_cache({.batch = 1, .capacity = 4});
  Tensor<float, 2> logits({1, 29});
  const Tensor<std::int32_t, 2> tokens = random_tokens({1, 5}, 29, 1);
  EXPECT_ERROR(other.model.decode(tokens.view(), cache, logits.view(), other.workspace), "5 more after 0",
               "expected at most the cache's 4");
}

}  // namespace
}  // namespace phasor
