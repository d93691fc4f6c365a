// Every encoding and score learns one batch by heart.
#include <gtest/gtest.h>

#include <cmath>

#include "phasor/training/trainer.h"
#include "small_model.h"

namespace phasor {
namespace {

// Always the same batch.
class OneBatch : public Dataset {
 public:
  std::int64_t vocabulary() const override { return 9; }
  bool exact_match() const override { return true; }
  bool next_token() const override { return true; }

 private:
  void fill_row(std::int64_t row, Split, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) const override {
    const std::int64_t rows = 4;
    std::uint64_t state = static_cast<std::uint64_t>(row % rows) * 7919 + 1;
    for (std::size_t t = 0; t <= tokens.size(); t++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto token = static_cast<std::int32_t>((state >> 33) % 9);
      if (t < tokens.size()) tokens[t] = token;
      if (t > 0) targets[t - 1] = token;
    }
    targets[0] = kNoTarget;  // rows that begin alike need not go on alike
  }
  void check_length(std::int64_t) const override {}
};

struct Learner {
  const char* encoding;
  Score score;
};

class Overfits : public testing::TestWithParam<Learner> {};

TEST_P(Overfits, OneBatchToNearZero) {
  constexpr std::int64_t kSteps = 600;
  const OneBatch data;
  Transformer model(small_config(data.vocabulary(), GetParam().encoding, GetParam().score), 1);
  TrainingState state = small_training(kSteps);
  state.settings.schedule = {.peak = 4e-3, .warmup_steps = 10, .steps = kSteps};
  state.settings.evaluate_every = 0;
  Trainer trainer(model, data, state);
  EXPECT_EQ(train(trainer), TrainEnd::finished);
  const std::vector<LossPoint>& losses = trainer.state().losses;
  EXPECT_NEAR(losses.front().train_loss, std::log(9.0), 0.05 * std::log(9.0));
  EXPECT_LT(losses.back().train_loss, 0.02);
}

INSTANTIATE_TEST_SUITE_P(EveryEncodingAndScore, Overfits,
                         testing::Values(Learner{"none", Score::dot}, Learner{"learned", Score::dot},
                                         Learner{"sinusoidal", Score::dot}, Learner{"rope", Score::dot},
                                         Learner{"alibi", Score::dot}, Learner{"t5", Score::dot},
                                         Learner{"relative", Score::dot}, Learner{"none", Score::w2},
                                         Learner{"learned", Score::w2}, Learner{"sinusoidal", Score::w2},
                                         Learner{"t5", Score::w2}, Learner{"relative", Score::w2},
                                         Learner{"rope", Score::w2}, Learner{"alibi", Score::w2}),
                         [](const auto& test) {
                           return std::string(test.param.encoding) + (test.param.score == Score::w2 ? "_w2" : "_dot");
                         });

}  // namespace
}  // namespace phasor
