// sigma = exp(l / 2) and its gradient, on every SIMD target.
#include "phasor/attention/sigma.h"

#include <cmath>
#include <limits>

#include "phasor/core/random.h"
#include "support/every_target.h"
#include "support/expect_error.h"
#include "support/guarded.h"

namespace phasor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TensorView<float, 4> as_row(std::vector<float>& numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  return {numbers.data(), {1, 1, 1, count}, {count, count, count, 1}};
}

std::vector<float> sigma_of(std::vector<float> log_variance) {
  const TensorView<float, 4> row = as_row(log_variance);
  sigma_forward(row, row);  // in place, as layers do
  return log_variance;
}

// The halved argument is exact, so an exponential right to 2 ulp is all there is to lose.
TEST(Sigma, IsRightToTwoUlp) {
  std::vector<float> values;
  for (int i = 0; i <= 4000; i++) values.push_back(-139.0f + 0.0787f * static_cast<float>(i));
  on_every_target([&] {
    const std::vector<float> found = sigma_of(values);
    for (std::size_t i = 0; i < values.size(); i++) {
      const double expected = std::exp(static_cast<double>(values[i]) / 2);
      ASSERT_NEAR(found[i], expected, 2 * 0x1p-23 * expected) << "exp(" << values[i] << " / 2)";
    }
  });
}

// Every storage, rows that lie apart, more of them than one task takes.
template <class T>
void backward(const Guarded<float, 4>& sigma, const Guarded<float, 4>& grad, const Guarded<T, 4>& to) {
  if constexpr (std::is_same_v<T, float>) {
    to.for_each([](float& x) { x = 2.0f; });
    sigma_backward(sigma.view, to.view);
  } else {
    sigma_backward(sigma.view, grad.view, to.view);
  }
}

template <class T>
void check_storage(const Shape<4>& shape, const Layout& layout) {
  Guarded<T, 4> log_variance(shape, layout), result(shape, layout);
  Guarded<float, 4> sigma(shape, layout), grad(shape, layout);
  std::uint64_t i = 0;
  log_variance.for_each([&](T& x) { x = T(3 * Philox(1).normal(i++)); });
  grad.for_each([](float& x) { x = 2.0f; });
  on_every_target([&] {
    sigma.reset();
    sigma_forward(log_variance.view, sigma.view);
    sigma.expect_guards("sigma");
    backward(sigma, grad, result);
    result.expect_guards("to");
    std::vector<float> expected, given;
    log_variance.for_each([&](const T& x) { expected.push_back(std::exp(static_cast<float>(x) / 2)); });
    sigma.for_each([&](const float& x) { given.push_back(x); });
    for (std::size_t j = 0; j < given.size(); j++) ASSERT_NEAR(given[j], expected[j], 1e-6 * expected[j] + 1e-7);
    std::size_t j = 0;
    result.for_each(
        [&](const T& x) { ASSERT_EQ(static_cast<float>(x), static_cast<float>(T(given[j++]))); });  // 2 sigma / 2
  });
}

TEST(Sigma, EveryStorage) {
  for (const Shape<4>& shape : {Shape<4>{1, 1, 1, 1}, {2, 3, 17, 33}, {1, 2, 300, 64}, {0, 1, 3, 8}})
    for (const Layout& layout : {Layout{}, Layout{.heads_inside = true, .gap = 3}}) {
      check_storage<float>(shape, layout);
      check_storage<bf16>(shape, layout);
      check_storage<f16>(shape, layout);
    }
}

TEST(Sigma, ErrorsNameTheShapes) {
  std::vector<float> four(4), three(3);
  EXPECT_ERROR(sigma_forward(as_row(four), as_row(three)), "[sigma_forward]", "sigma: shape [1, 1, 1, 3], expected",
               "[1, 1, 1, 4]");
  EXPECT_ERROR(sigma_backward(as_row(four), as_row(three)), "[sigma_backward]", "grad: shape [1, 1, 1, 3]");
}

// A variance too small for float is 0, one too large stays finite, and NaN is seen.
TEST(Sigma, Extremes) {
  on_every_target([&] {
    for (const std::size_t count : {1u, 64u}) {
      const auto all = [&](float value) { return sigma_of(std::vector<float>(count, value)); };
      for (const float value : all(0.0f)) EXPECT_EQ(value, 1.0f);
      for (const float tiny : {-kInfinity, -1e30f, -300.0f, -145.0f})
        for (const float value : all(tiny)) EXPECT_EQ(value, 0.0f) << tiny;
      for (const float large : {176.5f, 200.0f, 1e30f, kInfinity})
        for (const float value : all(large))
          EXPECT_TRUE(value >= 1.6e38f && std::isfinite(value)) << large << ": " << value;
      for (const float value : all(std::numeric_limits<float>::quiet_NaN())) EXPECT_TRUE(std::isnan(value));
    }
  });
}

TEST(Sigma, Gradient) {
  std::vector<float> sigma(1001), grad(1001);
  Philox(1).fill_uniform(sigma, 0.0f, 5.0f);
  Philox(2).fill_normal(grad);
  on_every_target([&] {
    std::vector<float> found = grad;
    sigma_backward(as_row(sigma), as_row(found));
    for (std::size_t i = 0; i < sigma.size(); i++) {
      const double expected = static_cast<double>(sigma[i]) * static_cast<double>(grad[i]) / 2;
      ASSERT_NEAR(found[i], expected, 0x1p-24 * std::fabs(expected) + 1e-45);
    }
  });
}

// A key that no query sees has a gradient of 0, whatever its sigma is.
TEST(Sigma, GradientOfAHiddenKeyIsZero) {
  std::vector<float> sigma{NAN, INFINITY, 1.0f};
  on_every_target([&] {
    std::vector<float> grad(3);
    sigma_backward(as_row(sigma), as_row(grad));
    for (const float g : grad) EXPECT_EQ(g, 0.0f);
  });
}

}  // namespace
}  // namespace phasor
