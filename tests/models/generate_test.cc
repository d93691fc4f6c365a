#include "phasor/models/generate.h"

#include <gtest/gtest.h>

#include "models/model_cases.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

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
    written.push_back(sample_token({last, static_cast<std::size_t>(model.config().vocab_size)}, text, sampling,
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
    const Sampling sampling{.temperature = 0.8, .top_k = 10, .top_p = 0.95, .repetition_penalty = 1.1, .seed = 4};
    Workspace workspace;
    EXPECT_EQ(generate(model, prompt, {.max_tokens = 20, .sampling = sampling}, workspace),
              without_cache(model, prompt, 20, sampling))
        << each.name;
  }
}

// Prompts of different lengths together, one of which ends early.
TEST(Generate, BatchEqualsOneByOne) {
  const std::vector<std::vector<std::int32_t>> prompts{{3, 1, 4, 1, 5, 9, 2}, {6}, {5, 3, 5}};
  for (ModelCase& each : model_cases()) {
    Transformer model(each.config, 9);
    for (const NamedWeight& weight : model.weights())
      if (weight.weight->shape().size() == 2)
        for (float& value : weight.weight->value()) value *= 12.0f;
    Workspace workspace;
    GenerateOptions options{.max_tokens = 20, .sampling = {.temperature = 0.8, .top_k = 10, .seed = 4}};
    options.stop_tokens = {generate(model, prompts[1], options, workspace)[7]};
    std::vector<std::vector<std::int32_t>> expected;
    expected.reserve(prompts.size());
    for (const auto& prompt : prompts) expected.push_back(generate(model, prompt, options, workspace));
    EXPECT_LE(expected[1].size(), 8u);
    std::vector<std::vector<std::int32_t>> told(prompts.size());
    const auto on_token = [&](std::size_t b, std::int32_t token) {
      told[b].push_back(token);
      return true;
    };
    EXPECT_EQ(generate_batch(model, prompts, options, workspace, on_token), expected) << each.name;
    EXPECT_EQ(told, expected);
  }
}

TEST(Generate, BatchOfPromptsWhoseAnglesFollowTheLength) {
  const RopeConfig dynamic{.head_dim = 6, .scaling = {.type = "dynamic", .factor = 2.0}, .max_position_embeddings = 8};
  const Transformer model(small_config(dynamic, Score::dot), 1);
  const std::vector<std::vector<std::int32_t>> prompts{{3, 1, 4}, {1, 5, 9, 2, 6}};
  Workspace workspace;
  const auto written = generate_batch(model, prompts, {.max_tokens = 12}, workspace);
  for (std::size_t b = 0; b < 2; b++) EXPECT_EQ(written[b], without_cache(model, prompts[b], 12, {}));
  Transformer::Cache cache = model.make_cache({.batch = 2, .capacity = 9, .keys = CachedKeys::unrotated});
  Tensor<std::int32_t, 2> tokens({2, 3});
  Tensor<float, 2> logits({2, 29});
  const std::vector<std::int64_t> counts{3, 1};
  EXPECT_ERROR(model.decode(tokens.view(), cache, logits.view(), workspace, counts),
               "of sequences of different lengths", "expected one length");
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
  EXPECT_EQ(generate(model, prompt, {.max_tokens = 20}, workspace), without_cache(model, prompt, 20, {}));
}

TEST(Generate, StopsWhenTold) {
  const Transformer model(small_config(NoneConfig{}, Score::dot), 1);
  const std::vector<std::int32_t> prompt{1};
  Workspace workspace;
  const std::vector<std::int32_t> all = generate(model, prompt, {.max_tokens = 6}, workspace);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(generate(model, prompt, {.max_tokens = 6, .stop_tokens = {-1, all[0]}}, workspace).size(), 1u);
  int heard = 0;
  EXPECT_EQ(generate(model, prompt, {.max_tokens = 6}, workspace, [&](std::int32_t) { return ++heard < 3; }).size(),
            3u);
  EXPECT_ERROR(generate(model, {}, {}, workspace), "prompt: no tokens");
  EXPECT_ERROR(generate(model, prompt, {.max_tokens = INT64_MAX}, workspace), "max_tokens: 9223372036854775807",
               "expected 0 to 2147483647");
}

// Token by token, as iterators of other languages ask for them.
TEST(Generate, ATextInSeveralCallsIsThatOfOne) {
  const ModelCase each = model_cases().front();
  const Transformer model(each.config, 9);
  const std::vector<std::int32_t> prompt{3, 1, 4, 1, 5};
  Workspace workspace;
  GenerateOptions options{.max_tokens = 20, .sampling = {.temperature = 2.0, .seed = 4}};
  const std::vector<std::int32_t> expected = generate(model, prompt, options, workspace);
  Transformer::Cache cache = generation_cache(model, 5, options);
  std::vector<std::int32_t> text = prompt;
  continue_text(model, 5, cache, {.max_tokens = 7, .sampling = options.sampling}, text, workspace);
  for (std::int64_t drawn = 7; drawn < 20; drawn++)
    continue_text(model, 1, cache, {.max_tokens = 1, .sampling = options.sampling, .first_draw = drawn}, text,
                  workspace);
  EXPECT_EQ(std::vector(text.begin() + 5, text.end()), expected);
}

TEST(Generate, TextsFitThePositions) {
  const Transformer model(small_config(LearnedConfig{.max_length = 8}, Score::dot), 1);
  Workspace workspace;
  const std::vector<std::int32_t> prompt(8, 1);
  EXPECT_EQ(generate(model, prompt, {.max_tokens = 1}, workspace).size(), 1u);
  EXPECT_EQ(generate(model, {prompt.data(), 3}, {.max_tokens = 6}, workspace).size(), 6u);
  EXPECT_ERROR(generate(model, prompt, {.max_tokens = 2}, workspace), "max_tokens: 2", "at most 1", "texts of 8");
  const std::vector<std::int32_t> longer(9, 1);
  EXPECT_ERROR(generate(model, longer, {.max_tokens = 1}, workspace), "prompt: 9 tokens, expected at most 8");
}

}  // namespace
}  // namespace phasor
