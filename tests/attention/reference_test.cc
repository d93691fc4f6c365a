// The reference itself: its backward pass is the derivative of its forward pass, by central differences.
#include <cmath>

#include "attention/random_case.h"
#include "reference/attention_backward.h"
#include "support/seeds.h"

namespace phasor::reference {
namespace {

// The loss whose gradient by out is grad_out, and by lse grad_lse.
double loss(const Problem<double>& p, const Given<double>& given) {
  const Result<double> result = forward(p);
  double sum = 0;
  for (std::size_t i = 0; i < result.out.values.size(); i++) sum += result.out.values[i] * given.grad_out.values[i];
  if (given.grad_lse)
    for (std::size_t i = 0; i < result.lse.values.size(); i++)
      if (std::isfinite(result.lse.values[i])) sum += result.lse.values[i] * given.grad_lse->values[i];
  return sum;
}

// Moves each of `values`, numbers of p, a little up and down. The step's own error is of the order of its square.
void expect_is_derivative(const char* name, const Problem<double>& p, const Given<double>& given,
                          std::vector<double>& values, const std::vector<double>& gradient) {
  constexpr double kStep = 1e-5, kAllowed = 1e-7;
  ASSERT_EQ(values.size(), gradient.size());
  for (std::size_t i = 0; i < values.size(); i++) {
    if (!std::isfinite(values[i])) {  // masked
      EXPECT_EQ(gradient[i], 0) << name << ' ' << i;
      continue;
    }
    const double value = values[i];
    values[i] = value + kStep;
    const double above = loss(p, given);
    values[i] = value - kStep;
    const double below = loss(p, given);
    values[i] = value;
    const double expected = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient[i], expected, kAllowed * (1 + std::fabs(expected))) << name << ' ' << i;
  }
}

void expect_backward_is_derivative(const Case& c) {
  SCOPED_TRACE(testing::Message() << c);
  const Inputs<float> inputs(c);
  Problem<double> p = problem<double, float>(inputs.q.view, inputs.k.view, inputs.v.view, inputs.options);
  const Result<double> result = forward(p);
  Given<double> given{result.out, read<double>(inputs.grad_out.view), {}};
  if (c.grad_lse) given.grad_lse = read<double>(inputs.grad_lse.view);
  const Gradients<double> gradients = backward(p, given);
  expect_is_derivative("q", p, given, p.q.values, gradients.q.values);
  expect_is_derivative("k", p, given, p.k.values, gradients.k.values);
  expect_is_derivative("v", p, given, p.v.values, gradients.v.values);
  if (p.mask) expect_is_derivative("mask", p, given, p.mask->values, gradients.mask->values);
  if (p.key_bias) expect_is_derivative("key_bias", p, given, p.key_bias->values, gradients.key_bias->values);
  if (p.query_scale)
    expect_is_derivative("query_scale", p, given, p.query_scale->values, gradients.query_scale->values);
  if (p.relative_bias)
    expect_is_derivative("relative_bias", p, given, p.relative_bias->values, gradients.relative_bias->values);
  for (auto [name, table, by_table] :
       {std::tuple{"q_rotary", &p.q_rotary, &gradients.q_rotary}, {"k_rotary", &p.k_rotary, &gradients.k_rotary}}) {
    if (!*table) continue;
    expect_is_derivative(name, p, given, (*table)->cos.values, (*by_table)->cos.values);
    expect_is_derivative(name, p, given, (*table)->sin.values, (*by_table)->sin.values);
  }
  if (p.alibi_slopes)
    expect_is_derivative("alibi_slopes", p, given, p.alibi_slopes->values, gradients.alibi_slopes->values);
  if (p.sinks) expect_is_derivative("sinks", p, given, p.sinks->values, gradients.sinks->values);
}

// Several sequences, groups and tokens, and few numbers: each is moved on its own.
Case small_case(std::uint32_t seed) {
  Draw draw(seed);
  Case c;
  c.seed = seed;
  c.batch = draw.between(1, 2);
  c.groups = draw.between(1, 2);
  c.heads = c.groups * draw.between(1, 2);
  c.queries = draw.between(1, 5);
  c.keys = draw.between(1, 6);
  c.width = draw.between(2, 5);
  c.value_width = draw.between(1, 4);
  if (draw.chance(25)) {
    c.batch = 1;
    c.queries = c.keys = 6;
    c.query_starts = {0, draw.between(0, 3), 6};
    c.key_starts = {0, draw.between(0, 3), 6};
  }
  if (draw.chance(25)) c.scale = 0.4;
  if (draw.chance(40)) c.softcap = 1.5;
  draw_positions(draw, c);
  if (draw.chance(20)) c.window = Window(draw.between(1, 3), draw.between(1, 3));
  draw_masks(draw, c);
  draw_masks(draw, c);
  draw_rotation(draw, c);
  c.sinks = draw.chance(40);
  if (draw.chance(40)) c.dropout = 0.3, c.dropout_seed = seed;
  c.grad_lse = draw.chance(50);
  return c;
}

TEST(AttentionReference, BackwardIsTheDerivativeOfForward) {
  for (const std::uint32_t seed : seeds({.count = 80})) {
    SCOPED_TRACE(repeat_seed(seed));
    expect_backward_is_derivative(small_case(seed));
  }
}

// What the options mean, on numbers small enough to work out by hand.
TEST(AttentionReference, SoftmaxOfTwoKeys) {
  const float q = 2, keys[2] = {1, 3}, values[2] = {10, 20}, bias[2] = {0.5f, -0.5f}, sink = 1;
  AttentionOptions options{.scale = 0.5};
  options.key_bias = TensorView<const float, 3>(bias, {1, 1, 2});
  options.sinks = std::span(&sink, 1);
  const TensorView<const float, 4> one(&q, {1, 1, 1, 1}), k(keys, {1, 1, 2, 1}), v(values, {1, 1, 2, 1});
  const Result<double> result = forward(problem<double, float>(one, k, v, options));
  const double a = std::exp(1.5), b = std::exp(2.5), c = std::exp(1.0);
  EXPECT_NEAR(result.lse(0, 0, 0), std::log(a + b + c), 1e-15);
  EXPECT_NEAR(result.weights(0, 0, 0, 1), b / (a + b + c), 1e-15);
  EXPECT_NEAR(result.out(0, 0, 0, 0), (10 * a + 20 * b) / (a + b + c), 1e-14);
}

TEST(AttentionReference, CapComesBeforeBias) {
  const float q = 1, key = 8, bias = 3;
  AttentionOptions options{.scale = 2.0, .softcap = 4.0};
  options.key_bias = TensorView<const float, 3>(&bias, {1, 1, 1});
  const TensorView<const float, 4> one(&q, {1, 1, 1, 1}), k(&key, {1, 1, 1, 1});
  EXPECT_NEAR(forward(problem<double, float>(one, k, k, options)).lse(0, 0, 0), 4 * std::tanh(16.0 / 4) + 3, 1e-15);
}

}  // namespace
}  // namespace phasor::reference
