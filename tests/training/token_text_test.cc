// Texts of tokens: how rows are cut, and evaluation through a cache.
#include <gtest/gtest.h>

#include <map>

#include "phasor/position/rope.h"
#include "phasor/training/dataset.h"
#include "phasor/training/evaluation.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

std::vector<std::int32_t> numbers(std::int32_t count) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; i++) tokens.push_back(i + 1);
  return tokens;
}

std::vector<std::int32_t> row(const Tensor<std::int32_t, 2>& rows, std::int64_t r) {
  const std::int32_t* first = rows.data() + r * rows.shape()[1];
  return {first, first + rows.shape()[1]};
}

using Tokens = std::vector<std::int32_t>;

TEST(TokenText, RowsFollowEachOther) {
  const TokenText text(numbers(10));
  ASSERT_EQ(text.rows(3), 3);
  Batch batch(4, 3);
  text.fill(0, Split::validation, batch);
  EXPECT_EQ(row(batch.tokens, 1), Tokens({4, 5, 6}));
  EXPECT_EQ(row(batch.targets, 1), Tokens({5, 6, 7}));
  EXPECT_EQ(row(batch.targets, 2), Tokens({8, 9, 10}));
  EXPECT_EQ(row(batch.tokens, 3), row(batch.tokens, 0));  // behind the last one
  EXPECT_EQ(TokenText(numbers(9)).rows(3), 2);            // the last token of a third row has no target
}

TEST(TokenText, APrefixStandsBeforeEachRowAndIsNoTarget) {
  const TokenText text(numbers(9), {.prefix = {100, 101}});
  EXPECT_EQ(text.vocabulary(), 102);
  ASSERT_EQ(text.rows(5), 3);
  Batch batch(3, 5);
  text.fill(0, Split::validation, batch);
  EXPECT_EQ(row(batch.tokens, 1), Tokens({100, 101, 4, 5, 6}));
  EXPECT_EQ(row(batch.targets, 1), Tokens({kNoTarget, 4, 5, 6, kNoTarget}));
}

TEST(TokenText, EveryTokenIsATargetOnce) {
  for (const Tokens& prefix : {Tokens{}, Tokens{50}, Tokens{50, 51, 52}}) {
    const TokenText text(numbers(25), {.prefix = prefix});
    for (const std::int64_t length : {4, 6, 12}) {
      Batch batch(text.rows(length), length);
      text.fill(0, Split::validation, batch);
      std::map<std::int32_t, int> times;
      for (const std::int32_t target : std::span(batch.targets.data(), static_cast<std::size_t>(batch.targets.size())))
        if (target != kNoTarget) times[target]++;
      const std::int32_t first = prefix.empty() ? 2 : 1;  // nothing foretells the first token
      const std::int64_t step = length - static_cast<std::int64_t>(prefix.size());
      ASSERT_EQ(static_cast<std::int64_t>(times.size()), text.rows(length) * step);
      for (const auto& [token, count] : times) EXPECT_EQ(count, 1) << token;
      EXPECT_EQ(times.begin()->first, first);
    }
  }
}

TEST(TokenText, RefusesWhatHasNoRows) {
  Batch batch(1, 10);
  EXPECT_ERROR(TokenText({}), "tokens: none");
  EXPECT_ERROR(TokenText({1, -1}), "tokens: -1");
  EXPECT_ERROR(TokenText(numbers(10)).fill(0, Split::validation, batch), "length: 10", "10 tokens");
}

// A model whose logits differ, so that a wrong token or position shows.
Transformer model_of(const EncodingConfig& encoding, std::int64_t positions) {
  Transformer model({.vocab_size = 30,
                     .hidden_size = 16,
                     .num_hidden_layers = 2,
                     .num_attention_heads = 2,
                     .intermediate_size = 24,
                     .max_position_embeddings = positions,
                     .encoding = encoding},
                    3);
  for (const NamedWeight& weight : model.weights())
    if (weight.weight->shape().size() == 2)
      for (float& value : weight.weight->value()) value *= 10.0f;
  return model;
}

TEST(EvaluateByToken, EqualsAllTokensAtOnce) {
  const TokenText text(numbers(29), {.prefix = {0}});
  Workspace workspace;
  const Transformer model = model_of(RopeConfig{.head_dim = 8}, 64);
  EvaluationSettings settings{.length = 8, .rows = 4, .batch = 3};
  const Evaluation expected = evaluate(model, text, settings, workspace);
  settings.cache = CacheStorage::float32;
  const Evaluation found = evaluate(model, text, settings, workspace);
  EXPECT_NEAR(found.loss, expected.loss, 1e-5);
  EXPECT_EQ(found.counted, expected.counted);
  EXPECT_EQ(found.token_accuracy, expected.token_accuracy);
  ASSERT_EQ(found.by_position.size(), expected.by_position.size());
  for (std::size_t i = 0; i < found.by_position.size(); i++)
    EXPECT_NEAR(found.by_position[i].loss, expected.by_position[i].loss, 1e-5) << i;

  settings.cache = CacheStorage::int8;
  const Evaluation rounded = evaluate(model, text, settings, workspace);
  EXPECT_NE(rounded.loss, found.loss);  // the cache is read
  EXPECT_NEAR(rounded.loss, found.loss, 0.05);
  EXPECT_NEAR(rounded.by_position[0].loss, found.by_position[0].loss, 0.02);
}

}  // namespace
}  // namespace phasor
