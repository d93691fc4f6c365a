// Trials of several seeds and rates become one comparison.
#include <gtest/gtest.h>

#include "compare/comparison_folder.h"

namespace phasor::tool {
namespace {

using report::Comparison;
using report::EncodingResult;

// The trial of one seed: its last validation loss, its score at length 8, and by position.
Comparison trial(std::int64_t seed, double rate, double loss, double score,
                 std::vector<report::PositionScore> by_position) {
  Comparison found;
  found.settings.length = 8;
  found.settings.learning_rates = {rate};
  EncodingResult result{.name = "rope", .tokens_per_second = 100.0 * static_cast<double>(seed)};
  result.runs = {{seed, rate, {{1, loss, loss}}}};
  result.scores = {{8, {score}}};
  result.by_position = {8, std::move(by_position)};
  found.encodings = {result};
  return found;
}

EncodingResult merged(const std::vector<Comparison>& trials) {
  return merge_trials({}, {"rope"}, trials).encodings.at(0);
}

TEST(MergeTrials, PositionsHaveTheMeanOfTheSeedsThatHaveThem) {
  const EncodingResult found =
      merged({trial(1, 0.1, 1.0, 0.5, {{2, 0.2}, {3, 0.4}, {7, 1.0}}), trial(2, 0.1, 1.0, 0.7, {{1, 0.3}, {3, 0.8}})});
  ASSERT_TRUE(found.by_position.has_value());
  EXPECT_EQ(found.by_position->length, 8);
  const std::vector<std::pair<std::int64_t, double>> expected{{1, 0.3}, {2, 0.2}, {3, 0.6}, {7, 1.0}};
  ASSERT_EQ(found.by_position->scores.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); i++) {
    EXPECT_EQ(found.by_position->scores[i].position, expected[i].first);
    EXPECT_NEAR(found.by_position->scores[i].score, expected[i].second, 1e-15);
  }
  EXPECT_EQ(found.scores[0].by_seed, (std::vector<double>{0.5, 0.7}));
  EXPECT_EQ(found.tokens_per_second, 150.0);
}

TEST(MergeTrials, TheRateOfTheLeastLossCounts) {
  const EncodingResult found = merged({trial(1, 0.1, 1.0, 0.5, {}), trial(1, 0.2, 0.5, 0.7, {})});
  EXPECT_EQ(found.scores[0].by_seed, std::vector<double>{0.7});
  EXPECT_EQ(found.runs.at(0).learning_rate, 0.2);
}

// A trial as `phasor compare` keeps it when the training diverged.
Comparison diverged(std::int64_t seed, double rate) {
  Comparison found = trial(seed, rate, 0.001, 0.0, {});
  found.encodings[0].runs[0].diverged = "training diverged after step 1";
  found.encodings[0].scores = {{8, {}, "training diverged after step 1"}};
  found.encodings[0].by_position.reset();
  return found;
}

TEST(MergeTrials, ARateThatDivergedIsTheLastChoice) {
  const EncodingResult found = merged({diverged(1, 0.2), trial(1, 0.1, 1.0, 0.5, {})});
  EXPECT_EQ(found.scores[0].by_seed, std::vector<double>{0.5});
}

TEST(MergeTrials, NoScoreWhereASeedDiverged) {
  for (const bool first : {true, false}) {
    const Comparison bad = diverged(1, 0.1), good = trial(2, 0.1, 1.0, 0.5, {{1, 0.5}});
    const EncodingResult found = merged(first ? std::vector{bad, good} : std::vector{good, bad});
    EXPECT_EQ(found.scores[0].not_possible, "training diverged after step 1");
    EXPECT_TRUE(found.scores[0].by_seed.empty());
    EXPECT_FALSE(found.by_position.has_value());
    Comparison whole;
    whole.settings.length = 8;
    whole.encodings = {found};
    EXPECT_EQ(report::to_json(report::read_comparison(report::to_json(whole), "f")), report::to_json(whole));
  }
}

}  // namespace
}  // namespace phasor::tool
