// w2_attention_backward against central differences of the double reference.
#include <cmath>

#include "attention/w2_bound.h"
#include "attention/w2_case.h"
#include "phasor/core/parallel.h"
#include "support/every_target.h"
#include "support/seeds.h"

namespace phasor {
namespace {

using reference::Array;

template <class T>
struct W2GradientMemory {
  Guarded<T, 4> q_mean, k_mean, v_mean, v_spread;
  Guarded<float, 4> q_spread, k_spread;
  Guarded<float, 4> mask;
  Guarded<float, 3> key_bias;
  Guarded<float, 2> relative_bias;
  Guarded<float, 1> sinks;
  double tau = NAN;

  W2GradientMemory(const W2Case& c, const AttentionOptions& options)
      : q_mean({c.batch, c.heads, c.queries, c.width}, c.layout),
        k_mean({c.batch, c.groups, c.keys, c.width}, c.layout),
        v_mean({c.batch, c.groups, c.keys, c.value_width}, c.layout),
        v_spread(v_mean.view.shape, c.layout),
        q_spread(q_mean.view.shape, c.layout),
        k_spread(k_mean.view.shape, c.layout),
        mask(options.mask.shape, {.gap = c.layout.gap}),
        key_bias(options.key_bias.shape, {.gap = c.layout.gap}),
        relative_bias({c.heads, c.bias_span}, {.gap = c.layout.gap}),
        sinks({c.heads}, {}) {}

  void run(const W2Case& c, const W2Inputs<T>& inputs, const W2Outputs<T>& outputs) {
    W2Result<T> result{{outputs.mean.view, outputs.spread.view}, outputs.lse.view, inputs.grad_out(), {}};
    if (c.grad_lse) result.grad_lse = inputs.means.grad_lse.view;
    W2Gradients<T> gradients{.q = {q_mean.view, q_spread.view},
                             .k = {k_mean.view, k_spread.view},
                             .v = {v_mean.view, v_spread.view},
                             .tau = &tau};
    if (c.mask) gradients.mask = mask.view;
    if (c.key_bias) gradients.key_bias = key_bias.view;
    if (c.bias_span > 0) gradients.relative_bias = relative_bias.view;
    if (c.sinks) gradients.sinks = sinks.view;
    w2_attention_backward(inputs.q(), inputs.k(), inputs.v(), inputs.tau, result, gradients, inputs.options());
  }
  bool same_bits(const W2GradientMemory& x) const {
    return q_mean.same_bits(x.q_mean) && q_spread.same_bits(x.q_spread) && k_mean.same_bits(x.k_mean) &&
           k_spread.same_bits(x.k_spread) && v_mean.same_bits(x.v_mean) && v_spread.same_bits(x.v_spread) &&
           mask.same_bits(x.mask) && key_bias.same_bits(x.key_bias) && relative_bias.same_bits(x.relative_bias) &&
           sinks.same_bits(x.sinks) && tau == x.tau;
  }
};

// loss = out . grad_out + lse . grad_lse, over what is finite.
double loss(const reference::W2Problem<double>& w, const W2Case& c, const W2Inputs<float>& inputs) {
  const reference::W2Result<double> result = w2_forward(w);
  double sum = 0;
  std::size_t i = 0;
  inputs.means.grad_out.for_each([&](float g) { sum += g * result.mean.out.values[i++]; });
  i = 0;
  inputs.spreads.grad_out.for_each([&](float g) { sum += g * result.spread.values[i++]; });
  i = 0;
  inputs.means.grad_lse.for_each([&](float g) {
    const double lse = result.mean.lse.values[i++];
    if (c.grad_lse && std::isfinite(lse)) sum += g * lse;
  });
  return sum;
}

// Gradients in float are off by rounding, of terms as large as the largest gradient of the tensor; and by the errors of
// scores, which change weights, and with them gradients of scores, in proportion.
class Differences {
 public:
  reference::W2Problem<double> problem;

  Differences(const W2Case& c, const W2Inputs<float>& inputs)
      : problem(inputs.problem<double>()), c_(c), inputs_(inputs) {
    const Centred x(problem);
    for (std::int64_t b = 0; b < c.batch; b++)
      for (std::int64_t h = 0; h < c.heads; h++)
        for (std::int64_t i = 0; i < c.queries; i++)
          for (std::int64_t j = 0; j < c.keys; j++) relative_ = std::max(relative_, x.score_error(problem, b, h, i, j));
    relative_ += 0x1p-18;
  }

  double by(double& variable) {
    constexpr double kStep = 1e-5;
    const double before = variable;
    variable = before + kStep;
    const double above = loss(problem, c_, inputs_);
    variable = before - kStep;
    const double below = loss(problem, c_, inputs_);
    variable = before;
    return (above - below) / (2 * kStep);
  }

  template <int Rank>
  void expect_equal(const char* name, Array<double, Rank>& variables, const Guarded<float, Rank>& gradient) {
    gradient.expect_guards(name);
    ASSERT_EQ(variables.shape, gradient.view.shape) << name;
    std::vector<double> expected;
    double largest = 1;
    for (double& variable : variables.values) {
      expected.push_back(by(variable));
      largest = std::max(largest, std::fabs(expected.back()));
    }
    std::size_t i = 0;
    gradient.for_each([&](float given) {
      EXPECT_NEAR(given, expected[i], relative_ * largest) << name << ", element " << i;
      i++;
    });
  }
  void expect_equal_tau(double given) {
    const double expected = by(problem.tau);
    EXPECT_NEAR(given, expected, relative_ * std::max(1.0, std::fabs(expected))) << "tau";
  }

 private:
  const W2Case& c_;
  const W2Inputs<float>& inputs_;
  double relative_ = 0;
};

void check_case(const W2Case& c) {
  const W2Inputs<float> inputs(c);
  W2Outputs<float> outputs(c);
  outputs.run(inputs);
  W2GradientMemory<float> given(c, inputs.options());
  given.run(c, inputs, outputs);
  Differences d(c, inputs);
  d.expect_equal("q.mean", d.problem.means.q, given.q_mean);
  d.expect_equal("q.spread", d.problem.q_spread, given.q_spread);
  d.expect_equal("k.mean", d.problem.means.k, given.k_mean);
  d.expect_equal("k.spread", d.problem.k_spread, given.k_spread);
  d.expect_equal("v.mean", d.problem.means.v, given.v_mean);
  d.expect_equal("v.spread", d.problem.v_spread, given.v_spread);
  if (c.mask && !c.mask_is_expanded) d.expect_equal("mask", *d.problem.means.mask, given.mask);
  if (c.key_bias) d.expect_equal("key_bias", *d.problem.means.key_bias, given.key_bias);
  if (c.bias_span > 0) d.expect_equal("relative_bias", *d.problem.means.relative_bias, given.relative_bias);
  if (c.sinks) d.expect_equal("sinks", *d.problem.means.sinks, given.sinks);
  d.expect_equal_tau(given.tau);
}

TEST(W2Gradient, EqualsCentralDifferences) {
  for (const std::uint32_t seed : seeds({.first = 1, .count = 200})) {
    SCOPED_TRACE(repeat_seed(seed));
    W2Case c = random_w2_case(seed, 400);
    c.mask_is_expanded = false;
    const std::int64_t variables = c.batch * (c.heads * c.queries + c.groups * c.keys) * (c.width + c.value_width);
    if (variables * (variables + c.work()) > 300'000) continue;  // each variable costs two forward passes
    std::ostringstream text;
    text << c << " tau " << c.tau;
    SCOPED_TRACE(text.str());
    check_case(c);
    if (HasFailure()) return;
  }
}

TEST(W2Gradient, EveryOptionAtOnce) {
  W2Case c;
  c.seed = 5;
  c.batch = 2, c.groups = 2, c.heads = 4, c.queries = 5, c.keys = 7, c.width = 6, c.value_width = 3;
  c.causal = true;
  c.window = Window(5);
  c.key_lengths = {7, 4};
  c.visible = Shape<4>{2, 1, 5, 7};
  c.mask = Shape<4>{1, 4, 1, 7};
  c.key_bias = Shape<3>{1, 2, 7};
  c.bias_span = 4, c.first_distance = -3;
  c.rotate_q = c.rotate_k = {3, Pairing::half, 1};
  c.grad_lse = true;
  for (const double tau : {-2.0, 0.7, 40.0}) {
    c.tau = tau;
    on_every_target([&] { check_case(c); });
  }
  c.scale = 0.4;
  c.softcap = 3;
  on_every_target([&] { check_case(c); });
  c.sinks = true;
  on_every_target([&] { check_case(c); });
}

TEST(W2Gradient, SameBitsForAnyNumberOfThreads) {
  for (const std::uint32_t seed : seeds({.first = 1, .count = 40})) {
    SCOPED_TRACE(repeat_seed(seed));
    const W2Case c = random_w2_case(seed, 200'000);
    const W2Inputs<float> inputs(c);
    W2Outputs<float> outputs(c);
    outputs.run(inputs);
    set_num_threads(1);
    W2GradientMemory<float> one(c, inputs.options());
    one.run(c, inputs, outputs);
    for (const int threads : {2, 5}) {
      set_num_threads(threads);
      W2GradientMemory<float> several(c, inputs.options());
      several.run(c, inputs, outputs);
      EXPECT_TRUE(one.same_bits(several)) << c << ", " << threads << " threads";
    }
    set_num_threads(0);
  }
}

// Arithmetic is float: gradients of 16-bit tensors are those of the same numbers in float, rounded.
template <class T>
void expect_rounded(std::uint32_t seed) {
  const W2Case c = random_w2_case(seed, 20'000);
  SCOPED_TRACE(testing::Message() << static_cast<const Case&>(c));
  const W2Inputs<T> inputs(c);
  W2Outputs<T> outputs(c);
  outputs.run(inputs);
  W2GradientMemory<T> narrow(c, inputs.options());
  narrow.run(c, inputs, outputs);

  W2Inputs<float> wide_inputs(c);
  W2Outputs<float> wide_outputs(c);
  const auto widen = [](const auto& from, Guarded<float, 4>& to) {
    std::vector<float> values;
    from.for_each([&](const auto& element) { values.push_back(static_cast<float>(element)); });
    std::size_t i = 0;
    to.for_each([&](float& element) { element = values[i++]; });
  };
  for (const auto& [from, to] :
       {std::pair{&inputs.means, &wide_inputs.means}, {&inputs.spreads, &wide_inputs.spreads}}) {
    widen(from->q, to->q);
    widen(from->k, to->k);
    widen(from->v, to->v);
    widen(from->grad_out, to->grad_out);
  }
  widen(inputs.q_sigma, wide_inputs.q_sigma);
  widen(inputs.k_sigma, wide_inputs.k_sigma);
  wide_outputs.run(wide_inputs);
  const auto expect_same = [](const Guarded<float, 4>& from, const Guarded<T, 4>& rounded) {
    std::vector<std::uint16_t> bits;
    from.for_each([&](const float& element) { bits.push_back(T(element).bits); });
    std::size_t i = 0, wrong = 0;
    rounded.for_each([&](const T& element) { wrong += element.bits != bits[i++]; });
    EXPECT_EQ(wrong, 0u);
  };
  expect_same(wide_outputs.mean, outputs.mean);
  expect_same(wide_outputs.spread, outputs.spread);
  widen(outputs.mean, wide_outputs.mean);
  widen(outputs.spread, wide_outputs.spread);
  W2GradientMemory<float> wide(c, wide_inputs.options());
  wide.run(c, wide_inputs, wide_outputs);
  expect_same(wide.q_mean, narrow.q_mean);
  EXPECT_TRUE(wide.q_spread.same_bits(narrow.q_spread));
  expect_same(wide.k_mean, narrow.k_mean);
  EXPECT_TRUE(wide.k_spread.same_bits(narrow.k_spread));
  expect_same(wide.v_mean, narrow.v_mean);
  expect_same(wide.v_spread, narrow.v_spread);
  EXPECT_EQ(wide.tau, narrow.tau);
}

TEST(W2Gradient, SixteenBitsAreFloatRounded) {
  for (const std::uint32_t seed : seeds({.first = 1, .count = 60})) {
    SCOPED_TRACE(repeat_seed(seed));
    expect_rounded<bf16>(seed);
    expect_rounded<f16>(seed);
  }
}

}  // namespace
}  // namespace phasor
