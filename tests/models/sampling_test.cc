#include "phasor/models/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/expect_error.h"
#include "support/golden.h"

namespace phasor {
namespace {

constexpr float kLogits[] = {1.0f, 3.0f, 2.0f, 3.0f, -1.0f};

std::int32_t sample(const Sampling& sampling, std::uint64_t draw = 0) {
  return sample_token(kLogits, {}, sampling, draw);
}

// How often each token is drawn: within five standard deviations, and never where it is left out.
void expect_probabilities(std::span<const float> logits, std::span<const std::int32_t> text, const Sampling& sampling,
                          const std::vector<double>& expected) {
  constexpr int kDraws = 20000;
  std::vector<int> counts(logits.size());
  for (std::uint64_t i = 0; i < kDraws; i++)
    counts[static_cast<std::size_t>(sample_token(logits, text, sampling, i))]++;
  for (std::size_t token = 0; token < counts.size(); token++) {
    const double p = expected[token];
    EXPECT_NEAR(counts[token], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << token;
  }
}

TEST(SampleToken, HasTheProbabilitiesOfTransformers) {
  const nlohmann::json golden = read_golden("sampling.json");
  const std::vector<float> logits = golden.at("logits");
  const std::vector<std::int32_t> text = golden.at("text");
  for (const nlohmann::json& each : golden.at("cases")) {
    const nlohmann::json& settings = each.at("settings");
    SCOPED_TRACE(settings.dump());
    const Sampling sampling{.temperature = settings.at("temperature"),
                            .top_k = settings.value("top_k", 0),
                            .top_p = settings.value("top_p", 1.0),
                            .min_p = settings.value("min_p", 0.0),
                            .repetition_penalty = settings.value("repetition_penalty", 1.0),
                            .seed = 3};
    expect_probabilities(logits, text, sampling, each.at("probabilities"));
  }
}

// More tokens than are sorted at once.
TEST(SampleToken, OfManyTokens) {
  std::vector<float> logits(1000);
  std::vector<double> expected(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); i++) {
    logits[i] = static_cast<float>((i * 7) % 10) / 4;
    sum += expected[i] = std::exp(static_cast<double>(logits[i]));
  }
  for (double& p : expected) p /= sum;
  expect_probabilities(logits, {}, {.temperature = 1.0}, expected);
}

TEST(SampleToken, GreedyTakesTheFirstOfTheLikeliest) {
  EXPECT_EQ(sample({}), 1);
  const std::int32_t text[] = {1, 0, 1};
  EXPECT_EQ(sample_token(kLogits, text, {.repetition_penalty = 1.2}, 0), 3);
  const std::int32_t both[] = {3, 1};
  EXPECT_EQ(sample_token(kLogits, both, {.repetition_penalty = 1.4}, 0), 1);
  EXPECT_EQ(sample_token(kLogits, both, {.repetition_penalty = 1.6}, 0), 2);
}

TEST(SampleToken, TopKAndTopPAndMinPLeaveOutTheRest) {
  for (std::uint64_t i = 0; i < 1000; i++) {
    EXPECT_EQ(sample({.temperature = 1.0, .top_k = 1}, i), 1);
    const std::int32_t of_two = sample({.temperature = 5.0, .top_k = 2}, i);
    EXPECT_TRUE(of_two == 1 || of_two == 3) << of_two;
    // Tokens 1 and 3 have probability 0.396 each: they reach 0.75, the third is not needed.
    const std::int32_t likely = sample({.temperature = 1.0, .top_p = 0.75}, i);
    EXPECT_TRUE(likely == 1 || likely == 3) << likely;
    EXPECT_EQ(sample({.temperature = 1.0, .top_p = 1e-9}, i), 1);
    // Token 2 has exp(-1) = 0.368 times the largest.
    const std::int32_t near = sample({.temperature = 1.0, .min_p = 0.37}, i);
    EXPECT_TRUE(near == 1 || near == 3) << near;
  }
}

TEST(SampleToken, RefusesWhatCannotBeMeant) {
  EXPECT_ERROR(sample({.temperature = -1}), "temperature: -1");
  EXPECT_ERROR(sample({.top_k = -2}), "top_k: -2");
  EXPECT_ERROR(sample({.top_p = 0}), "top_p: 0");
  EXPECT_ERROR(sample({.min_p = 1.5}), "min_p: 1.5");
  EXPECT_ERROR(sample({.repetition_penalty = 0}), "repetition_penalty: 0");
  const float bad[] = {1.0f, NAN};
  EXPECT_ERROR(sample_token(bad, {}, {}, 0), "logits: NaN");
  const std::int32_t text[] = {5};
  EXPECT_ERROR(sample_token(kLogits, text, {.repetition_penalty = 2}, 0), "text: token 5", "0 to 4");
}

}  // namespace
}  // namespace phasor
