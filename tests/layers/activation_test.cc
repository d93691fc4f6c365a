// Activations and their derivatives against double, over all magnitudes.
#include "layers/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "phasor/core/random.h"
#include "reference/layers.h"
#include "support/every_target.h"

namespace phasor {
namespace {

// -100 .. 100 in steps that grow, and odd at the end of a vector.
std::vector<float> sweep() {
  std::vector<float> values{0.0f, -0.0f};
  for (float x = 1e-30f; x < 100.0f; x *= x < 1e-3f ? 3.1f : 1.0007f) {
    values.push_back(x);
    values.push_back(-x);
  }
  values.push_back(11.5f);
  return values;
}

double slope(const std::function<double(double)>& function, double x) {
  const double h = 1e-3 * std::max(1.0, std::fabs(x) / 16);  // five points: error of order h^4
  return (8 * (function(x + h) - function(x - h)) - (function(x + 2 * h) - function(x - 2 * h))) / (12 * h);
}

// |found - expected| in units of the last place of `size`. An exponential below 2^-100 may be 0, times its factor.
double ulps(float found, double expected, double size, double factor) {
  const double unit = 0x1p-23 * std::fabs(size) + 0x1p-100 * std::fabs(factor) + 0x1p-200;  // never 0
  return std::fabs(static_cast<double>(found) - expected) / unit;
}

TEST(Activation, GatedIsRightToAFewUlps) {
  const std::vector<float> gate = sweep();
  std::vector<float> up(gate.size()), act(gate.size()), grad_gate(gate.size()), grad_up(gate.size());
  Philox(1).fill_uniform(up, -2.0f, 2.0f);
  const auto count = static_cast<std::int64_t>(gate.size());
  on_every_target([&] {
    detail::activate(Activation::silu, gate.data(), up.data(), act.data(), count);
    std::vector<float> again(gate.size());
    Philox(2).fill_uniform(again, -2.0f, 2.0f);
    const std::vector<float> grad = again;
    detail::activate_backward(Activation::silu,
                              {gate.data(), up.data(), again.data(), grad_gate.data(), grad_up.data()}, count);
    EXPECT_EQ(again, act);
    for (std::size_t i = 0; i < gate.size(); i++) {
      const double x = gate[i], u = up[i], g = grad[i], silu = reference::silu(x), s = 1 / (1 + std::exp(-x));
      EXPECT_LE(ulps(act[i], silu * u, silu * u, x * u), 4) << x;
      EXPECT_LE(ulps(grad_up[i], silu * g, silu * g, x * g), 4) << x;
      const double derivative = s + x * s / (1 + std::exp(x)), size = s + std::fabs(x * s / (1 + std::exp(x)));
      EXPECT_NEAR(derivative, slope(reference::silu, x), 1e-9);
      EXPECT_LE(ulps(grad_gate[i], derivative * u * g, size * u * g, (1 + std::fabs(x)) * u * g), 6) << x;
    }
  });
}

struct ActivationCase {
  Activation form;
  double (*function)(double);
};

TEST(Activation, AloneIsRightToAFewUlps) {
  const std::vector<float> x = sweep();
  std::vector<float> act(x.size()), grad_x(x.size());
  const auto count = static_cast<std::int64_t>(x.size());
  for (const ActivationCase& each :
       {ActivationCase{Activation::gelu, reference::gelu_erf},
        ActivationCase{Activation::gelu_tanh, reference::gelu_tanh}, ActivationCase{Activation::silu, reference::silu}})
    on_every_target([&] {
      detail::activate(each.form, x.data(), nullptr, act.data(), count);
      std::vector<float> again(x.size(), 1.0f);
      detail::activate_backward(each.form, {.x = x.data(), .grad_act_to_act = again.data(), .grad_x = grad_x.data()},
                                count);
      EXPECT_EQ(again, act);
      for (std::size_t i = 0; i < x.size(); i++) {
        const double value = each.function(x[i]), a = std::fabs(static_cast<double>(x[i]));
        // With the tanh form the rounding of 2u is one of the result, where that is small.
        const double of_argument = each.form == Activation::gelu_tanh && x[i] < 0 ? 2 * a + 0.1 * a * a * a : 0;
        EXPECT_LE(ulps(act[i], value, value, x[i]), 6 + 2 * of_argument) << x[i];
        const double derivative = slope(each.function, x[i]);
        EXPECT_LE(std::fabs(grad_x[i] - derivative), 6 * 0x1p-23 + 1e-9) << x[i];
      }
    });
}

TEST(Activation, ExtremesStayDefined) {
  const float huge = 3e38f;
  std::vector<float> x{huge, -huge, std::numeric_limits<float>::quiet_NaN()}, act(3), grad(3, 1.0f), grad_x(3);
  on_every_target([&] {
    for (const Activation form : {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::relu}) {
      detail::activate(form, x.data(), nullptr, act.data(), 3);
      EXPECT_EQ(act[0], huge);
      EXPECT_EQ(act[1], 0.0f);
      EXPECT_TRUE(std::isnan(act[2]));
      grad = {1.0f, 1.0f, 1.0f};
      detail::activate_backward(form, {.x = x.data(), .grad_act_to_act = grad.data(), .grad_x = grad_x.data()}, 3);
      EXPECT_EQ(grad_x[0], 1.0f);
      EXPECT_EQ(grad_x[1], 0.0f);
      EXPECT_TRUE(std::isnan(grad_x[2]) || form == Activation::relu);  // whose slope is 1, as in torch
    }
    std::vector<float> up{1.0f, 1.0f, 1.0f};
    detail::activate(Activation::silu, x.data(), up.data(), act.data(), 3);
    EXPECT_EQ(act[0], huge);
    EXPECT_EQ(act[1], 0.0f);
    EXPECT_TRUE(std::isnan(act[2]));
  });
}

// The larger of x and 0, exactly, with slope 0 at 0.
TEST(Activation, ReluIsExact) {
  const std::vector<float> x = sweep();
  std::vector<float> act(x.size()), grad(x.size()), grad_x(x.size());
  const auto count = static_cast<std::int64_t>(x.size());
  on_every_target([&] {
    detail::activate(Activation::relu, x.data(), nullptr, act.data(), count);
    Philox(2).fill_uniform(grad, -2.0f, 2.0f);
    const std::vector<float> given = grad;
    detail::activate_backward(Activation::relu,
                              {.x = x.data(), .grad_act_to_act = grad.data(), .grad_x = grad_x.data()}, count);
    for (std::size_t i = 0; i < x.size(); i++) {
      EXPECT_EQ(act[i], x[i] > 0 ? x[i] : 0.0f);
      EXPECT_EQ(grad_x[i], x[i] > 0 ? given[i] : 0.0f);
    }
  });
}

}  // namespace
}  // namespace phasor
