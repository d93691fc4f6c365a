#include "phasor/models/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/model_cases.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

constexpr float kLogits[] = {1.0f, 3.0f, 2.0f, 3.0f, -1.0f};

TEST(SampleToken, GreedyTakesTheFirstOfTheLikeliest) { EXPECT_EQ(sample_token(kLogits, {}, 0), 1); }

TEST(SampleToken, FollowsTheSoftmax) {
  std::map<std::int32_t, int> counts;
  constexpr int kDraws = 40000;
  for (std::uint64_t i = 0; i < kDraws; i++) counts[sample_token(kLogits, {.temperature = 2.0, .seed = 3}, i)]++;
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(logit / 2.0);
  for (std::int32_t token = 0; token < 5; token++) {
    const double p = std::exp(kLogits[token] / 2.0) / sum;
    EXPECT_NEAR(counts[token], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << token;
  }
}

TEST(SampleToken, TopKAndTopPLeaveOutTheRest) {
  for (std::uint64_t i = 0; i < 1000; i++) {
    EXPECT_EQ(sample_token(kLogits, {.temperature = 1.0, .top_k = 1}, i), 1);
    const std::int32_t of_two = sample_token(kLogits, {.temperature = 5.0, .top_k = 2}, i);
    EXPECT_TRUE(of_two == 1 || of_two == 3) << of_two;
    // Tokens 1 and 3 have probability 0.396 each: they reach 0.75, the third is not needed.
    const std::int32_t likely = sample_token(kLogits, {.temperature = 1.0, .top_p = 0.75}, i);
    EXPECT_TRUE(likely == 1 || likely == 3) << likely;
    EXPECT_EQ(sample_token(kLogits, {.temperature = 1.0, .top_p = 1e-9}, i), 1);
  }
}

TEST(SampleToken, RefusesWhatCannotBeMeant) {
  EXPECT_ERROR(sample_token(kLogits, {.temperature = -1}, 0), "temperature: -1");
  EXPECT_ERROR(sample_token(kLogits, {.top_k = -2}, 0), "top_k: -2");
  EXPECT_ERROR(sample_token(kLogits, {.top_p = 0}, 0), "top_p: 0");
  const float bad[] = {1.0f, NAN};
  EXPECT_ERROR(sample_token(bad, {}, 0), "logits: NaN");
}

// What generate writes, by whole forward passes.
std::vector<std::int32_t> without_cache(const Transformer& model, std::vector<std::int32_t> text, std::int64_t count,
                                        const Sampling& sampling) {
  Workspace workspace;
  std::vector<std::int32_t> written;
  for (std::int64_t i = 0; i < count; i++) {
    const auto length = static_cast<std::int64_t>(text.size());
    Tensor<float, 3> logits({1, length, model.config().vocab_size});
    model.forward({text.data(), {1, length}}, logits.view(), nullptr, workspace);
    const float* last = &logits(0, length - 1, 0);
    written.push_back(sample_token({last, static_cast<std::size_t>(model.config().vocab_size)}, sampling,
                                   static_cast<std::uint64_t>(i)));
    text.push_back(written.back());
  }
  return written;
}

TEST(Generate, WithCacheEqualsWithout) {
  for (ModelCase& each : model_cases()) {
    Transformer model(each.config, 9);
    for (const NamedWeight& weight : model.weights())
      if (weight.weight->shape().size() == 2)
        for (float& value : weight.weight->value()) value *= 12.0f;
    const std::vector<std::int32_t> prompt{3, 1, 4, 1, 5};
    const Sampling sampling{.temperature = 0.8, .top_k = 10, .top_p = 0.95, .seed = 4};
    Workspace workspace;
    EXPECT_EQ(generate(model, prompt, {.new_tokens = 20, .sampling = sampling}, workspace),
              without_cache(model, prompt, 20, sampling))
        << each.name;
  }
}

TEST(Generate, DynamicScalingKeepsKeysUnrotated) {
  const RopeConfig dynamic{.head_dim = 6, .scaling = {.type = "dynamic", .factor = 2.0}, .max_position_embeddings = 8};
  const Transformer model(small_config(dynamic, Score::dot), 1);
  EXPECT_EQ(model.suitable_keys(8), CachedKeys::rotated);
  EXPECT_EQ(model.suitable_keys(20), CachedKeys::unrotated);
  EXPECT_EQ(Transformer(small_config(RopeConfig{.head_dim = 6}, Score::dot), 1).suitable_keys(1000),
            CachedKeys::rotated);
  const std::vector<std::int32_t> prompt{3, 1, 4};
  Workspace workspace;
  EXPECT_EQ(generate(model, prompt, {.new_tokens = 20}, workspace), without_cache(model, prompt, 20, {}));
}

TEST(Generate, StopsWhenTold) {
  const Transformer model(small_config(NoneConfig{}, Score::dot), 1);
  const std::vector<std::int32_t> prompt{1};
  Workspace workspace;
  const std::vector<std::int32_t> all = generate(model, prompt, {.new_tokens = 6}, workspace);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(generate(model, prompt, {.new_tokens = 6, .stop_token = all[0]}, workspace).size(), 1u);
  int heard = 0;
  EXPECT_EQ(generate(model, prompt, {.new_tokens = 6}, workspace, [&](std::int32_t) { return ++heard < 3; }).size(),
            3u);
  EXPECT_ERROR(generate(model, {}, {}, workspace), "prompt: no tokens");
}

}  // namespace
}  // namespace phasor
