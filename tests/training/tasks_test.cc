#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "phasor/training/dataset.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

using Row = std::vector<std::int32_t>;

struct Pair {
  Row tokens, targets;
};

Pair row_of(const Batch& batch, std::int64_t r) {
  const std::int64_t length = batch.tokens.shape()[1];
  return {{batch.tokens.data() + r * length, batch.tokens.data() + (r + 1) * length},
          {batch.targets.data() + r * length, batch.targets.data() + (r + 1) * length}};
}

Batch batch_of(const Dataset& data, std::int64_t index, Split split, std::int64_t rows, std::int64_t length) {
  Batch batch(rows, length);
  std::fill(batch.tokens.begin(), batch.tokens.end(), -7);  // every element is to be written
  std::fill(batch.targets.begin(), batch.targets.end(), -7);
  data.fill(index, split, batch);
  return batch;
}

bool same(const Batch& a, const Batch& b) {
  return std::ranges::equal(a.tokens, b.tokens) && std::ranges::equal(a.targets, b.targets);
}

// ---- the targets that a row of tokens must have, by a plain loop for each task ----

Row copy_targets(const Row& tokens, const TaskConfig& config, bool reversed) {
  const std::size_t n = tokens.size() / 2;
  Row targets(tokens.size(), kNoTarget);
  EXPECT_EQ(tokens[n], config.symbols);
  for (std::size_t i = 0; i < n; i++) {
    targets[n + i] = tokens[reversed ? n - 1 - i : i];
    if (n + i + 1 < tokens.size()) {
      EXPECT_EQ(tokens[n + i + 1], targets[n + i]);
    }
  }
  return targets;
}

// Half of the symbols are keys. As many pairs as a quarter of the row, or as there are keys.
Row recall_targets(const Row& tokens, const TaskConfig& config) {
  const std::size_t pairs = std::min(tokens.size() / 4, static_cast<std::size_t>(config.symbols / 2));
  Row targets(tokens.size(), kNoTarget);
  std::map<std::int32_t, std::int32_t> value_of;
  for (std::size_t i = 0; i < pairs; i++) {
    EXPECT_LT(tokens[2 * i], config.symbols / 2);
    EXPECT_GE(tokens[2 * i + 1], config.symbols / 2);
    EXPECT_TRUE(value_of.emplace(tokens[2 * i], tokens[2 * i + 1]).second) << "a key twice";
  }
  EXPECT_EQ(tokens[2 * pairs], config.symbols);
  for (std::size_t at = 2 * pairs + 1; at < tokens.size(); at += 2) {
    EXPECT_TRUE(value_of.count(tokens[at])) << "a key that has no value";
    targets[at] = value_of[tokens[at]];
    if (at + 1 < tokens.size()) {
      EXPECT_EQ(tokens[at + 1], targets[at]);
    }
  }
  return targets;
}

Row induction_targets(const Row& tokens) {
  Row targets(tokens.size(), kNoTarget);
  for (std::size_t t = 0; t < tokens.size(); t++)
    for (std::size_t j = 0; j < t; j++)  // the last one stays
      if (tokens[j] == tokens[t]) targets[t] = tokens[j + 1];
  return targets;
}

Row ago_targets(const Row& tokens, const TaskConfig& config) {
  Row targets;
  for (std::int64_t t = 0; t < static_cast<std::int64_t>(tokens.size()); t++)
    targets.push_back(t < config.distance ? kNoTarget : tokens[static_cast<std::size_t>(t - config.distance)]);
  return targets;
}

Row expected_targets(std::string_view name, const Row& tokens, const TaskConfig& config) {
  if (name == "copy") return copy_targets(tokens, config, false);
  if (name == "reverse") return copy_targets(tokens, config, true);
  if (name == "recall") return recall_targets(tokens, config);
  if (name == "induction") return induction_targets(tokens);
  if (name == "ago") return ago_targets(tokens, config);
  ADD_FAILURE() << "no definition of task " << name << " in this test";
  return {};
}

// ---- tests over all tasks ----

TEST(Tasks, MeanWhatTheySay) {
  for (const Task& task : tasks())
    for (const TaskConfig& config : {TaskConfig{}, TaskConfig{.symbols = 10, .distance = 1, .seed = 5}})
      for (const std::int64_t length : {5, 6, 7, 8, 9, 64, 255, 1024})
        for (const Split split : {Split::train, Split::validation}) {
          SCOPED_TRACE(std::string(task.name) + ", length " + std::to_string(length));
          const auto data = task_dataset(task.name, config);
          EXPECT_EQ(data->vocabulary(), config.symbols + (task.separator ? 1 : 0));
          EXPECT_TRUE(data->exact_match());
          EXPECT_EQ(data->next_token(), task.next_token);
          const Batch batch = batch_of(*data, 3, split, 4, length);
          for (std::int64_t r = 0; r < 4; r++) {
            const Pair row = row_of(batch, r);
            for (const std::int32_t token : row.tokens) ASSERT_TRUE(token >= 0 && token < data->vocabulary()) << token;
            ASSERT_EQ(row.targets, expected_targets(task.name, row.tokens, config));
          }
        }
}

// What next_token promises.
TEST(Tasks, SayWhetherTargetsAreTheNextTokens) {
  for (const Task& task : tasks()) {
    const Pair row = row_of(batch_of(*task_dataset(task.name), 0, Split::train, 1, 200), 0);
    bool all_next = true;
    for (std::size_t t = 0; t + 1 < row.tokens.size(); t++)
      all_next = all_next && (row.targets[t] == kNoTarget || row.targets[t] == row.tokens[t + 1]);
    EXPECT_EQ(all_next, task.next_token) << task.name;
  }
}

TEST(Tasks, HaveExamplesThatAreRight) {
  std::set<std::string_view> names;
  for (const Task& task : tasks()) {
    EXPECT_TRUE(names.insert(task.name).second) << "twice";
    EXPECT_FALSE(task.about.empty());
    EXPECT_EQ(&phasor::task(task.name), &task);
    const TaskConfig config{.symbols = 26, .distance = 2};
    const auto numbers = [&](std::string_view text) {
      std::istringstream words{std::string(text)};
      Row row;
      for (char word; words >> word;) row.push_back(word == '.' ? kNoTarget : word == '|' ? 26 : word - 'a');
      return row;
    };
    const Row tokens = numbers(task.example_tokens);
    EXPECT_EQ(numbers(task.example_targets), expected_targets(task.name, tokens, config)) << task.name;
  }
}

TEST(Tasks, AreTheSameInAnyOrderAndAnyBatchSize) {
  for (const Task& task : tasks()) {
    const auto data = task_dataset(task.name, {.seed = 11});
    const auto again = task_dataset(task.name, {.seed = 11});
    const Batch first = batch_of(*data, 0, Split::train, 2, 40);
    const Batch sixth = batch_of(*data, 5, Split::train, 2, 40);
    EXPECT_FALSE(same(first, sixth)) << task.name;
    EXPECT_TRUE(same(sixth, batch_of(*again, 5, Split::train, 2, 40))) << task.name;
    EXPECT_TRUE(same(first, batch_of(*again, 0, Split::train, 2, 40))) << task.name;
    const Batch wide = batch_of(*data, 0, Split::train, 12, 40);  // rows 10 and 11 are batch 5 of two rows
    for (std::int64_t r = 0; r < 2; r++) EXPECT_EQ(row_of(wide, 10 + r).tokens, row_of(sixth, r).tokens) << task.name;
    EXPECT_FALSE(same(first, batch_of(*data, 0, Split::validation, 2, 40))) << task.name;
    EXPECT_FALSE(same(first, batch_of(*task_dataset(task.name, {.seed = 12}), 0, Split::train, 2, 40))) << task.name;
  }
}

// A change of the numbers would make an old run go on with other data.
TEST(Tasks, StayWhatTheyAre) {
  const Batch batch = batch_of(*task_dataset("ago", {.seed = 1}), 2, Split::train, 1, 8);
  EXPECT_EQ(row_of(batch, 0).tokens, (Row{5, 1, 7, 21, 25, 17, 30, 0}));
}

// With so few symbols all rows come up, so the splits share some unless they are kept apart.
TEST(Tasks, ValidationIsNeverTraining) {
  for (const Task& task : tasks()) {
    std::set<Row> rows[2];
    for (const Split split : {Split::train, Split::validation})
      for (const std::uint64_t seed : {0, 1}) {
        const auto data = task_dataset(task.name, {.symbols = 10, .distance = 1, .seed = seed});
        const Batch batch = batch_of(*data, 0, split, 2000, 5);
        for (std::int64_t r = 0; r < 2000; r++) rows[split == Split::validation].insert(row_of(batch, r).tokens);
      }
    EXPECT_GE(rows[0].size(), 2u) << task.name;
    EXPECT_GE(rows[1].size(), 1u) << task.name;
    for (const Row& row : rows[1]) EXPECT_FALSE(rows[0].count(row)) << task.name;
  }
}

TEST(Tasks, SymbolsAreUniform) {
  std::vector<int> counts(32);
  const Batch batch = batch_of(*task_dataset("ago"), 0, Split::train, 100, 320);
  for (const std::int32_t token : batch.tokens) counts[static_cast<std::size_t>(token)]++;
  for (const int count : counts) EXPECT_NEAR(count, 1000, 5 * 32) << "five standard deviations";
}

TEST(Tasks, RefuseWhatHasNoAnswer) {
  EXPECT_ERROR(task_dataset("none"), "[task]", "name: \"none\"",
               "expected one of copy, reverse, recall, induction, ago");
  EXPECT_ERROR(task_dataset("copy", {.symbols = 1}), "[task_dataset]", "symbols: 1", "expected 2 to 1048576");
  EXPECT_ERROR(task_dataset("ago", {.distance = -1}), "distance: -1", "expected 0 to");
  const std::map<std::string_view, std::int64_t> shortest{
      {"copy", 2}, {"reverse", 2}, {"recall", 4}, {"induction", 2}, {"ago", 5}};
  for (const auto& each : shortest) {
    const auto& name = each.first;  // clang 14 captures no structured bindings
    const std::int64_t length = each.second;
    const auto data = task_dataset(name);
    EXPECT_ERROR(batch_of(*data, 0, Split::train, 1, length - 1), "[fill] batch: rows of " + std::to_string(length - 1),
                 "expected at least " + std::to_string(length) + " for task " + std::string(name));
    const Batch batch = batch_of(*data, 0, Split::train, 64, length);
    EXPECT_GT(std::ranges::count_if(batch.targets, [](std::int32_t target) { return target != kNoTarget; }), 0) << name;
  }
  const auto data = task_dataset("copy");
  EXPECT_ERROR(batch_of(*data, -1, Split::train, 1, 8), "[fill]", "index: -1", "expected 0 to");
  EXPECT_ERROR(batch_of(*data, std::int64_t{1} << 61, Split::train, 2, 8), "index: 2305843009213693952");
  EXPECT_ERROR(batch_of(*data, 0, Split::train, 0, 8), "batch: tokens [0, 8]", "not empty");
  Batch odd(2, 8);
  odd.targets = Tensor<std::int32_t, 2>({2, 9});
  EXPECT_ERROR(data->fill(0, Split::train, odd), "tokens [2, 8] and targets [2, 9]", "expected two of the same shape");
  EXPECT_ERROR(batch_of(*task_dataset("recall", {.symbols = 2}), 0, Split::validation, 1, 4),
               "too few different rows for two splits");
}

// Chance is one in so many.
TEST(Tasks, AnswersAreAmongThoseCounted) {
  for (const Task& row : tasks()) {
    const TaskConfig config{.symbols = 9, .distance = 3, .seed = 2};
    const auto data = task_dataset(row.name, config);
    Batch batch(200, 24);
    data->fill(0, Split::train, batch);
    std::set<std::int32_t> answers(batch.targets.begin(), batch.targets.end());
    answers.erase(kNoTarget);
    EXPECT_EQ(static_cast<std::int64_t>(answers.size()), row.answers(config)) << row.name;
  }
}

}  // namespace
}  // namespace phasor
