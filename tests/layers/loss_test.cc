#include "phasor/layers/loss.h"

#include "layers/check_layer.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

std::vector<std::int32_t> random_targets(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int32_t> targets;
  for (std::int64_t n = 0; n < rows; n++) {
    const auto bits = Philox(8).block(static_cast<std::uint64_t>(n));
    targets.push_back(n % 4 == 3 ? kIgnoredTarget
                                 : static_cast<std::int32_t>(bits[0] % static_cast<std::uint32_t>(classes)));
  }
  return targets;
}

struct Size {
  std::int64_t rows, classes;
};

// Softmax less one at the target, over the counted rows: checked against differences below.
Values gradient_of(const Matrix& logits, const std::vector<std::int32_t>& targets) {
  Matrix gradient(logits.rows, logits.columns);
  const auto counted =
      static_cast<double>(targets.size() - static_cast<std::size_t>(std::ranges::count(targets, kIgnoredTarget)));
  for (std::size_t n = 0; n < logits.rows; n++) {
    if (targets[n] == kIgnoredTarget) continue;
    double sum = 0;
    for (std::size_t c = 0; c < logits.columns; c++) sum += std::exp(logits(n, c));
    for (std::size_t c = 0; c < logits.columns; c++)
      gradient(n, c) = (std::exp(logits(n, c)) / sum - (c == static_cast<std::size_t>(targets[n]))) / counted;
  }
  return gradient.values;
}

TEST(CrossEntropy, LossAndGradientAreThoseOfTheReference) {
  for (const Size& size : {Size{1, 1}, Size{17, 81}, Size{81, 197}, Size{5, 4500}}) {
    SCOPED_TRACE(std::to_string(size.rows) + " rows of " + std::to_string(size.classes));
    Guarded<float, 2> logits({size.rows, size.classes}, {.gap = 3}), gradient(logits.view.shape, {.gap = 1});
    fill_random(logits, 1, 3.0f);
    const std::vector<std::int32_t> targets = random_targets(size.rows, size.classes);
    const Matrix x(static_cast<std::size_t>(size.rows), static_cast<std::size_t>(size.classes), values_of(logits));
    const double loss = reference::cross_entropy(x, targets);
    const Values expected = gradient_of(x, targets);
    expect_slopes(
        "reference", expected,
        differences([&](const Values& at) { return reference::cross_entropy(Matrix(x.rows, x.columns, at), targets); },
                    x.values),
        1, 1e-2);
    Workspace workspace;
    std::vector<float> rows(static_cast<std::size_t>(size.rows));
    on_every_target([&] {
      Values first;
      for (const int threads : {1, 2, 3, 5}) {
        set_num_threads(threads);
        gradient.reset();
        const CrossEntropy found = cross_entropy(logits.view, targets, {gradient.view, rows}, workspace);
        EXPECT_NEAR(found.loss, loss, 1e-6 * std::max(1.0, loss));
        EXPECT_EQ(found.counted, size.rows - std::ranges::count(targets, kIgnoredTarget));
        gradient.expect_guards("grad_logits");
        // Each is within a few ulps of its softmax, so of the sum of two terms 1 / counted.
        expect_near("gradient", values_of(gradient), expected, 8 * 0x1p-24 / static_cast<double>(found.counted));
        double sum = 0;
        for (std::size_t n = 0; n < rows.size(); n++) {
          EXPECT_TRUE(targets[n] != kIgnoredTarget || rows[n] == 0.0f);
          sum += static_cast<double>(rows[n]);
        }
        EXPECT_EQ(sum / static_cast<double>(found.counted), found.loss);
        if (threads == 1) first = values_of(gradient);
        EXPECT_EQ(values_of(gradient), first);
        EXPECT_EQ(cross_entropy(logits.view, targets, {}, workspace).loss, found.loss);
      }
    });
    set_num_threads(0);
    cross_entropy(logits.view, targets, {.grad_logits = gradient.view}, workspace);
    cross_entropy(logits.view, targets, {.grad_logits = logits.view}, workspace);  // in place
    EXPECT_EQ(values_of(logits), values_of(gradient));
  }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  Tensor<float, 2> logits({1, 3}), gradient({1, 3});
  Workspace workspace;
  logits(0, 0) = 3e38f;
  logits(0, 1) = -3e38f;
  logits(0, 2) = -INFINITY;
  const std::vector<std::int32_t> right{0}, wrong{1};
  on_every_target([&] {
    EXPECT_EQ(cross_entropy(logits.view(), right, {.grad_logits = gradient.view()}, workspace).loss, 0.0);
    for (const float value : gradient) EXPECT_EQ(value, 0.0f);
    logits(0, 0) = 1e5f;
    logits(0, 1) = -1e5f;
    EXPECT_EQ(cross_entropy(logits.view(), wrong, {.grad_logits = gradient.view()}, workspace).loss, 2e5);
    EXPECT_EQ(gradient(0, 0), 1.0f);
    EXPECT_EQ(gradient(0, 1), -1.0f);
    EXPECT_EQ(gradient(0, 2), 0.0f);
    logits(0, 0) = 3e38f;
    logits(0, 1) = -3e38f;
  });
}

TEST(CrossEntropy, NoCountedRowGivesZero) {
  Tensor<float, 2> logits({2, 3}), gradient({2, 3});
  std::fill(gradient.begin(), gradient.end(), 5.0f);
  Workspace workspace;
  const std::vector<std::int32_t> targets{kIgnoredTarget, kIgnoredTarget};
  const CrossEntropy found = cross_entropy(logits.view(), targets, {.grad_logits = gradient.view()}, workspace);
  EXPECT_EQ(found.loss, 0.0);
  EXPECT_EQ(found.counted, 0);
  for (const float value : gradient) EXPECT_EQ(value, 0.0f);
}

TEST(CrossEntropy, ErrorsNameTheArgument) {
  Tensor<float, 2> logits({2, 3}), wrong({2, 4});
  Workspace workspace;
  const std::vector<std::int32_t> fine{0, 2}, large{0, 3}, negative{-1, 0}, one{0};
  std::vector<float> rows(3);
  EXPECT_ERROR(cross_entropy(logits.view(), large, {}, workspace), "[cross_entropy]", "targets: 3 at 1",
               "expected 0 to 2, or -100 to leave the row out");
  EXPECT_ERROR(cross_entropy(logits.view(), negative, {}, workspace), "[cross_entropy]", "targets: -1 at 0, expected");
  EXPECT_ERROR(cross_entropy(logits.view(), one, {}, workspace), "[cross_entropy]", "targets: 1", "expected 2");
  EXPECT_ERROR(cross_entropy(logits.view(), fine, {.grad_logits = wrong.view()}, workspace), "[cross_entropy]",
               "grad_logits: [2, 4]", "expected [2, 3]");
  EXPECT_ERROR(cross_entropy(logits.view(), fine, {.row_losses = rows}, workspace), "[cross_entropy]", "row_losses: 3",
               "expected 2");
}

}  // namespace
}  // namespace phasor
