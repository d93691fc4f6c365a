#include "phasor/training/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "phasor/core/parallel.h"
#include "phasor/core/random.h"
#include "phasor/training/schedule.h"
#include "support/every_target.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

// Weights of several kinds, with sizes that are no multiples of vectors, one of several parts.
struct Model {
  std::vector<Weight> weights;

  Model() {
    std::uint64_t stream = 0;
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {37}, {5, 1}, {301, 233}, {3, 7}}) {
      weights.emplace_back("w", shape);
      Philox(1, stream++).fill_normal(weights.back().value());
    }
  }
  NamedWeights named() {
    NamedWeights list;
    for (std::size_t i = 0; i < weights.size(); i++) list.push_back({"w" + std::to_string(i), &weights[i]});
    return list;
  }
  void fill_gradients(std::uint64_t seed) {
    for (std::size_t i = 0; i < weights.size(); i++) Philox(seed, i).fill_normal(weights[i].gradient(), 0.0f, 0.3f);
  }
  std::vector<float> values() const {
    std::vector<float> all;
    for (const Weight& weight : weights) all.insert(all.end(), weight.value().begin(), weight.value().end());
    return all;
  }
};

bool decays(const Weight& weight) { return weight.shape().size() == 2 && weight.shape()[1] > 1; }

// torch.optim.AdamW's single-tensor formula, in double.
struct Reference {
  std::vector<double> p, m, v;

  void step(const std::vector<double>& g, bool decay, double lr, int t, const AdamWConfig& c) {
    for (std::size_t i = 0; i < p.size(); i++) {
      if (decay) p[i] *= 1.0 - lr * c.weight_decay;
      m[i] = c.beta1 * m[i] + (1.0 - c.beta1) * g[i];
      v[i] = c.beta2 * v[i] + (1.0 - c.beta2) * g[i] * g[i];
      const double m_hat = m[i] / (1.0 - std::pow(c.beta1, t)), v_hat = v[i] / (1.0 - std::pow(c.beta2, t));
      p[i] -= lr * m_hat / (std::sqrt(v_hat) + c.eps);
    }
  }
};

TEST(AdamW, FollowsThePlainFormula) {
  on_every_target([] {
    Model model;
    const AdamWConfig config{.beta2 = 0.95, .weight_decay = 0.1};
    AdamW optimizer(model.named(), config);
    std::vector<Reference> references;
    for (const Weight& weight : model.weights) {
      const std::vector<double> zeros(weight.value().size(), 0.0);
      references.push_back({{weight.value().begin(), weight.value().end()}, zeros, zeros});
    }
    constexpr double kScale = 0.5;
    for (int t = 1; t <= 20; t++) {
      model.fill_gradients(static_cast<std::uint64_t>(t));
      const double lr = 1e-2 / t;
      for (std::size_t w = 0; w < references.size(); w++) {
        std::vector<double> g;
        for (const float value : model.weights[w].gradient()) g.push_back(kScale * value);
        references[w].step(g, decays(model.weights[w]), lr, t, config);
      }
      optimizer.step(lr, kScale);
    }
    // Each step rounds a weight of size about 1 to float a few times.
    for (std::size_t w = 0; w < references.size(); w++)
      for (std::size_t i = 0; i < references[w].p.size(); i++)
        ASSERT_NEAR(model.weights[w].value()[i], references[w].p[i], 20 * 4 * 1.2e-7 * 2.0) << w << ' ' << i;
  });
}

// One weight p = 1, gradient 0.5, lr 0.1, torch's defaults: after the first step m_hat = g and v_hat = g^2, so
// p = 1 (1 - 0.1 * 0.01) - 0.1 * 0.5 / (0.5 + 1e-8).
TEST(AdamW, FirstStepIsTheRate) {
  Weight weight("w", {2, 2});
  std::ranges::fill(weight.value(), 1.0f);
  AdamW optimizer({{"w", &weight}}, {});
  std::ranges::fill(weight.gradient(), 0.5f);
  optimizer.step(0.1);
  EXPECT_NEAR(weight.value()[3], 0.899 + 0.1 * 2e-8, 1e-7);
  EXPECT_EQ(weight.gradient()[3], 0.0f);  // ready for the next
}

TEST(AdamW, VectorsDoNotDecay) {
  Model model;
  AdamW optimizer(model.named(), {.weight_decay = 0.5});
  const std::vector<float> before = model.values();
  optimizer.step(0.1);  // no gradient: only decay changes weights
  std::size_t first = 0;
  for (const Weight& weight : model.weights) {
    const float kept = decays(weight) ? 0.95f : 1.0f;
    for (std::size_t i = 0; i < weight.value().size(); i++) EXPECT_EQ(weight.value()[i], before[first + i] * kept);
    first += weight.value().size();
  }
}

TEST(AdamW, SameBitsOnEveryTargetAndWithAnyThreads) {
  std::vector<float> expected;
  double expected_norm = 0.0;
  const auto run = [&](int threads) {
    set_num_threads(threads);
    Model model;
    AdamW optimizer(model.named(), {});
    double norm = 0.0;
    for (std::uint64_t t = 1; t <= 3; t++) {
      model.fill_gradients(t);
      norm = optimizer.gradient_norm();
      optimizer.step(1e-2, clip_scale(norm, 1.0));
    }
    set_num_threads(0);
    const std::vector<float> values = model.values();
    if (expected.empty()) {
      expected = values;
      expected_norm = norm;
    }
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0) << threads;
    EXPECT_EQ(norm, expected_norm);
  };
  run(1);
  run(2);
  run(3);
  on_every_target([&] { run(2); });
}

TEST(AdamW, RestoredItGoesOnBitForBit) {
  Model whole, parts;
  AdamW all(whole.named(), {});
  auto first = std::make_unique<AdamW>(parts.named(), AdamWConfig{});
  for (std::uint64_t t = 1; t <= 6; t++) {
    if (t == 4) {
      auto second = std::make_unique<AdamW>(parts.named(), AdamWConfig{});
      second->restore(first->steps_done(), first->moments());
      first = std::move(second);
    }
    whole.fill_gradients(t);
    parts.fill_gradients(t);
    all.step(1e-2);
    first->step(1e-2);
  }
  EXPECT_EQ(whole.values(), parts.values());
}

TEST(AdamW, GradientNormIsThatOfAllWeights) {
  Model model;
  AdamW optimizer(model.named(), {});
  model.fill_gradients(9);
  double sum = 0.0;
  for (Weight& weight : model.weights)
    for (const float value : weight.gradient()) sum += static_cast<double>(value) * value;
  EXPECT_NEAR(optimizer.gradient_norm(), std::sqrt(sum), 1e-12 * std::sqrt(sum));
}

TEST(AdamW, ClippingIsTorchs) {
  EXPECT_EQ(clip_scale(0.5, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clip_scale(4.0, 1.0), 1.0 / 4.000001);
  EXPECT_EQ(clip_scale(1e9, 0.0), 1.0);  // no limit
}

TEST(AdamW, Errors) {
  Weight weight("w", {2, 2}), other("other", {3});
  const NamedWeights weights{{"w", &weight}};
  EXPECT_ERROR(AdamW(weights, {.beta1 = 1.0}), "[AdamW]", "beta1: 1", "less than 1");
  EXPECT_ERROR(AdamW(weights, {.beta2 = -0.1}), "[AdamW]", "beta2: -0.1");
  EXPECT_ERROR(AdamW(weights, {.eps = 0.0}), "[AdamW]", "eps: 0");
  EXPECT_ERROR(AdamW(weights, {.weight_decay = NAN}), "[AdamW]", "weight_decay: nan");
  AdamW optimizer(weights, {});
  EXPECT_ERROR(optimizer.step(-1.0), "[AdamW]", "learning_rate: -1");
  EXPECT_ERROR(optimizer.restore(-1, optimizer.moments()), "steps_done: -1");
  EXPECT_ERROR(optimizer.restore(1, {}), "moments: of 0 weights", "expected 1");
  EXPECT_ERROR(optimizer.restore(1, AdamW({{"v", &other}}, {}).moments()), "weight v with 3", "expected w with 4");
  EXPECT_ERROR(clip_scale(1.0, -1.0), "[clip_scale]", "max_norm: -1");
}

TEST(Schedule, RisesThenFallsAlongACosine) {
  const Schedule schedule{.peak = 2.0, .warmup_steps = 4, .steps = 12, .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 8), 2.0 * (0.1 + 0.9 * 0.5));
  EXPECT_NEAR(learning_rate(schedule, 11), 2.0 * (0.1 + 0.9 * (1.0 + std::cos(M_PI * 7.0 / 8.0)) / 2.0), 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate({.peak = 1.0, .warmup_steps = 0, .steps = 5}, 0), 1.0);
}

TEST(Schedule, Errors) {
  EXPECT_ERROR(learning_rate({.peak = 0.0, .steps = 5}, 0), "[learning_rate]", "peak: 0");
  EXPECT_ERROR(learning_rate({.warmup_steps = 6, .steps = 5}, 0), "warmup_steps: 6", "expected 0 to steps 5");
  EXPECT_ERROR(learning_rate({.steps = 5, .final_fraction = 1.5}, 0), "final_fraction: 1.5");
  EXPECT_ERROR(learning_rate({.steps = 5}, 5), "step: 5", "expected 0 to 4");
}

}  // namespace
}  // namespace phasor
