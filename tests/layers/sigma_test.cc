// sigma = exp(l / 2) and its gradient, on every SIMD target.
#include "layers/sigma.h"

#include <cmath>
#include <limits>

#include "layers/check_layer.h"

namespace phasor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> sigma_of(std::vector<float> log_variance) {
  detail::sigma_forward(log_variance, log_variance);  // in place, as layers do
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

TEST(Sigma, OddSizesAndSeparateMemory) {
  for (const std::int64_t count : {0, 1, 7, 33, 70001}) {
    Guarded<float, 1> log_variance({count}), sigma({count});
    fill_random(log_variance, 1, 3.0f);
    on_every_target([&] {
      sigma.reset();
      detail::sigma_forward({log_variance.view.data, static_cast<std::size_t>(count)},
                            {sigma.view.data, static_cast<std::size_t>(count)});
      sigma.expect_guards("sigma");
      for (std::int64_t i = 0; i < count; i++)
        ASSERT_NEAR(sigma.view(i), std::exp(log_variance.view(i) / 2), 1e-6 * std::exp(log_variance.view(i) / 2));
    });
  }
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
    detail::sigma_backward(sigma, found);
    for (std::size_t i = 0; i < sigma.size(); i++) {
      const double expected = static_cast<double>(sigma[i]) * static_cast<double>(grad[i]) / 2;
      ASSERT_NEAR(found[i], expected, 0x1p-24 * std::fabs(expected) + 1e-45);
    }
  });
}

}  // namespace
}  // namespace phasor
