#include "phasor/training/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "phasor/core/parallel.h"
#include "phasor/training/checkpoint.h"
#include "phasor/training/evaluation.h"
#include "small_model.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

// Weights and losses of a training, stopped and resumed after some steps when asked to.
std::pair<std::vector<float>, std::string> trained(int threads, std::int64_t stop_after = 0,
                                                   std::int64_t accumulation = 1, Score score = Score::dot) {
  set_num_threads(threads);
  TemporaryFolder folder;
  TrainingState state = small_training(8);
  state.settings.accumulation = accumulation;
  const auto data = make_dataset(*state.data);
  TransformerConfig config = small_config(data->vocabulary(), "learned", score);
  config.attention_dropout = 0.1;
  Transformer model(config, 1);
  Trainer trainer(model, *data, state);
  TrainOptions options{.folder = folder / "run", .save_every = 3};
  options.stop_requested = [&] { return stop_after > 0 && trainer.state().steps_done == stop_after; };
  const TrainEnd end = train(trainer, options);
  if (stop_after > 0) {
    EXPECT_EQ(end, TrainEnd::stopped);
    const Checkpoint checkpoint(folder / "run");
    Transformer again = checkpoint.model();
    Trainer resumed(again, *data, checkpoint);
    EXPECT_EQ(resumed.state().steps_done, stop_after);
    EXPECT_EQ(train(resumed), TrainEnd::finished);
    set_num_threads(0);
    return {values_of(again), training_to_json(resumed.state())};
  }
  set_num_threads(0);
  return {values_of(model), training_to_json(trainer.state())};
}

TEST(Trainer, SameBitsWithOneAndTwoThreads) {
  for (const Score score : {Score::dot, Score::w2}) {
    const auto one = trained(1, 0, 2, score), two = trained(2, 0, 2, score);
    EXPECT_TRUE(same_bits(one.first, two.first));
    EXPECT_EQ(one.second, two.second);
  }
}

TEST(Trainer, ResumedItGivesTheSameBits) {
  const auto whole = trained(1), parts = trained(1, 5);
  EXPECT_TRUE(same_bits(whole.first, parts.first));
  EXPECT_EQ(whole.second, parts.second);
}

// Two passes of half the rows are one pass of all, but for rounding.
TEST(Trainer, AccumulationIsALargerBatch) {
  TrainingState large = small_training(1), small = small_training(1);
  large.settings.batch = 8;
  small.settings.accumulation = 2;
  for (TrainingState* state : {&large, &small}) state->settings.schedule.warmup_steps = 0;
  const auto data = make_dataset(*large.data);
  Transformer of_large(small_config(data->vocabulary()), 1), of_small(small_config(data->vocabulary()), 1);
  Trainer a(of_large, *data, large), b(of_small, *data, small);
  a.step();
  b.step();
  EXPECT_NEAR(a.state().losses[0].train_loss, b.state().losses[0].train_loss, 1e-6);
  EXPECT_EQ(a.tokens_per_step(), b.tokens_per_step());
  // The first step of AdamW is the rate, by the sign of the gradient, unless that is nearly 0.
  const std::vector<float> left = values_of(of_large), right = values_of(of_small);
  std::size_t alike = 0;
  for (std::size_t i = 0; i < left.size(); i++) alike += std::fabs(left[i] - right[i]) < 1e-5f;
  EXPECT_GT(static_cast<double>(alike), 0.99 * static_cast<double>(left.size()));
}

TEST(Trainer, EvaluatesEverySoOften) {
  const TrainingState state = small_training(8);
  const auto data = make_dataset(*state.data);
  Transformer model(small_config(data->vocabulary()), 1);
  Trainer trainer(model, *data, state);
  std::int64_t heard = 0;
  train(trainer, {.progress = [&](const TrainingState& now) { EXPECT_EQ(now.steps_done, ++heard); }});
  EXPECT_EQ(heard, 8);
  for (const LossPoint& point : trainer.state().losses)
    EXPECT_EQ(point.validation_loss.has_value(), point.step % 3 == 0 || point.step == 8);
}

TEST(Trainer, StopsWhenItDivergesAndKeepsTheLastSave) {
  TemporaryFolder folder;
  TrainingState state = small_training(8);
  state.settings.evaluate_every = 0;
  const auto data = make_dataset(*state.data);
  Transformer model(small_config(data->vocabulary()), 1);
  Trainer trainer(model, *data, state);
  for (int i = 0; i < 3; i++) trainer.step();
  trainer.save(folder / "run");
  const std::string saved = contents_of(folder / "run/model.safetensors");
  model.weights().front().weight->value()[0] = std::numeric_limits<float>::quiet_NaN();
  try {
    train(trainer, {.folder = folder / "run", .save_every = 1});
    ADD_FAILURE() << "did not throw";
  } catch (const TrainingDiverged& error) {
    EXPECT_NE(std::string(error.what()).find(": NaN at step 4, expected a finite number"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("a lower learning rate"), std::string::npos) << error.what();
  }
  EXPECT_EQ(contents_of(folder / "run/model.safetensors"), saved);
  EXPECT_EQ(load_training_state(folder / "run").steps_done, 3);
}

// Without clipping the norm is looked at, too; and what the last step has done, by the last validation.
TEST(Trainer, ARateFarTooHighDiverges) {
  for (const double clip : {1.0, 0.0}) {
    TrainingState state = small_training(2);
    state.settings.clip_norm = clip;
    state.settings.schedule = {.peak = 1e25, .warmup_steps = 0, .steps = 2};
    const auto data = make_dataset(*state.data);
    Transformer model(small_config(data->vocabulary()), 1);
    Trainer trainer(model, *data, state);
    EXPECT_THROW(train(trainer), TrainingDiverged);
  }
}

// ---- evaluation against plain loops over the logits ----

TEST(Evaluate, IsThePlainCount) {
  const auto data = make_dataset({.task = "recall", .symbols = 8, .seed = 4});
  const Transformer model(small_config(data->vocabulary()), 3);
  Workspace workspace;
  const Evaluation found = evaluate(model, *data, {.length = 24, .rows = 10, .batch = 4}, workspace);
  double loss = 0.0;
  std::int64_t counted = 0, right = 0, rows_right = 0;
  std::vector<double> loss_at(24, 0.0);
  std::vector<std::int64_t> counted_at(24, 0);
  for (std::int64_t r = 0; r < 10; r++) {
    Batch row(1, 24);
    data->fill(r, Split::validation, row);
    Tensor<float, 3> logits({1, 24, model.config().vocab_size});
    model.forward(std::as_const(row.tokens).view(), logits.view(), nullptr, workspace);
    bool all_right = true;
    for (std::int64_t t = 0; t < 24; t++) {
      const std::int32_t target = row.targets(0, t);
      if (target == kNoTarget) continue;
      double sum = 0.0;
      std::int64_t best = 0;
      for (std::int64_t v = 0; v < model.config().vocab_size; v++) {
        sum += std::exp(static_cast<double>(logits(0, t, v)));
        if (logits(0, t, v) > logits(0, t, best)) best = v;
      }
      const double here = std::log(sum) - logits(0, t, target);
      loss += here;
      loss_at[static_cast<std::size_t>(t)] += here;
      counted_at[static_cast<std::size_t>(t)]++;
      counted++;
      right += best == target;
      all_right = all_right && best == target;
    }
    rows_right += all_right;
  }
  EXPECT_EQ(found.rows, 10);
  EXPECT_EQ(found.counted, counted);
  EXPECT_NEAR(found.loss, loss / static_cast<double>(counted), 1e-5);
  EXPECT_DOUBLE_EQ(found.token_accuracy, static_cast<double>(right) / static_cast<double>(counted));
  EXPECT_DOUBLE_EQ(found.row_accuracy, static_cast<double>(rows_right) / 10.0);
  std::size_t next = 0;
  for (std::size_t t = 0; t < counted_at.size(); t++) {
    if (counted_at[t] == 0) continue;
    const PositionResult& at = found.by_position.at(next++);
    EXPECT_EQ(at.position, static_cast<std::int64_t>(t));
    EXPECT_EQ(at.counted, counted_at[t]);
    EXPECT_NEAR(at.loss, loss_at[t] / static_cast<double>(counted_at[t]), 1e-5);
  }
  EXPECT_EQ(next, found.by_position.size());
}

TEST(Evaluate, Errors) {
  const auto data = make_dataset({.task = "copy", .symbols = 8});
  const Transformer model(small_config(data->vocabulary()), 3);
  Workspace workspace;
  EXPECT_ERROR(evaluate(model, *data, {.length = 0}, workspace), "[evaluate]", "length: 0");
  EXPECT_ERROR(evaluate(model, *data, {.length = 8, .rows = 0}, workspace), "[evaluate]", "rows: 0");
  EXPECT_ERROR(evaluate(model, *data, {.length = 8, .batch = 0}, workspace), "[evaluate]", "batch: 0");
  const Transformer narrow(small_config(4), 3);
  EXPECT_ERROR(evaluate(narrow, *data, {.length = 8}, workspace), "9 different tokens",
               "expected at most the model's 4");
  TransformerConfig both_ways = small_config(9);
  both_ways.causal = false;
  const Transformer bidirectional(both_ways, 3);
  EXPECT_ERROR(evaluate(bidirectional, *data, {.length = 8}, workspace), "bidirectional");
}

TEST(Trainer, Errors) {
  const TrainingState good = small_training(2);
  const auto data = make_dataset(*good.data);
  Transformer model(small_config(data->vocabulary()), 1);
  const auto refused = [&](auto change, const char* text) {
    TrainingState bad = good;
    change(bad.settings);
    EXPECT_ERROR(Trainer(model, *data, bad), text);
  };
  refused([](TrainSettings& s) { s.batch = 0; }, "[Trainer] batch: 0");
  refused([](TrainSettings& s) { s.accumulation = 0; }, "[Trainer] accumulation: 0");
  refused([](TrainSettings& s) { s.length = -1; }, "[Trainer] length: -1");
  refused([](TrainSettings& s) { s.clip_norm = -1.0; }, "[Trainer] clip_norm: -1");
  refused([](TrainSettings& s) { s.schedule.steps = 0; }, "[Trainer] steps: 0");
  refused([](TrainSettings& s) { s.evaluate_every = -1; }, "evaluate_every: -1");
  refused([](TrainSettings& s) { s.evaluation_rows = 0; }, "evaluation_rows: 0");
  refused([](TrainSettings& s) { s.schedule.peak = -1.0; }, "peak: -1");
  refused([](TrainSettings& s) { s.schedule.steps = 1'000'000'001; }, "steps: 1000000001, expected 1 to 1000000000");
  refused([](TrainSettings& s) { s.batch = s.length = 1 << 20; }, "batch, length: 1048576 rows of 1048576 tokens");
  Trainer trainer(model, *data, good);
  EXPECT_ERROR(train(trainer, {.save_every = -1}), "[train]", "save_every: -1");
  train(trainer);
  EXPECT_ERROR(trainer.step(), "[Trainer]", "step: 3", "expected at most the schedule's 2");
}

}  // namespace
}  // namespace phasor
