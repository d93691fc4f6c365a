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
  Guarded<T, 4> q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma;
  Guarded<float, 4> mask;
  Guarded<float, 3> key_bias, query_scale;
  Guarded<float, 2> relative_bias;
  Guarded<float, 1> alibi_slopes, sinks;
  Guarded<float, 4> cos_q, sin_q, cos_k, sin_k;
  double tau = NAN;

  W2GradientMemory(const W2Case& c, const AttentionOptions& options)
      : q_mu({c.batch, c.heads, c.queries, c.width}, c.layout),
        k_mu({c.batch, c.groups, c.keys, c.width}, c.layout),
        v_mu({c.batch, c.groups, c.keys, c.value_width}, c.layout),
        q_log_sigma(q_mu.view.shape, c.layout),
        k_log_sigma(k_mu.view.shape, c.layout),
        v_log_sigma(v_mu.view.shape, c.layout),
        mask(options.mask.added.shape, {.gap = c.layout.gap}),
        key_bias(options.key_bias.shape, {.gap = c.layout.gap}),
        query_scale(options.query_scale.shape, {.gap = c.layout.gap}),
        relative_bias({c.heads, c.bias_span}, {.gap = c.layout.gap}),
        alibi_slopes({c.heads}, {}),
        sinks({c.heads}, {}),
        cos_q(table_shape(options.q_rotary)),
        sin_q(table_shape(options.q_rotary)),
        cos_k(table_shape(options.k_rotary)),
        sin_k(table_shape(options.k_rotary)) {}

  void run(const W2Case& c, const W2Inputs<T>& inputs, const W2Outputs<T>& outputs) {
    W2BackwardInput<T> input{{outputs.mu.view, outputs.log_sigma.view}, outputs.softmax.view, inputs.grad_out(), {}};
    if (c.grad_lse) input.grad_lse = inputs.means.grad_lse.view;
    W2Gradients<T> gradients{.q = {q_mu.view, q_log_sigma.view},
                             .k = {k_mu.view, k_log_sigma.view},
                             .v = {v_mu.view, v_log_sigma.view},
                             .tau = &tau};
    if (c.mask) gradients.mask = mask.view;
    if (c.key_bias) gradients.key_bias = key_bias.view;
    if (c.query_scale) gradients.query_scale = query_scale.view;
    if (c.bias_span > 0) gradients.relative_bias = relative_bias.view;
    if (c.alibi) gradients.alibi_slopes = alibi_slopes.view;
    if (c.sinks) gradients.sinks = sinks.view;
    if (c.q_rotary.pairs > 0) gradients.q_rotary = {cos_q.view, sin_q.view};
    if (c.k_rotary.pairs > 0) gradients.k_rotary = {cos_k.view, sin_k.view};
    w2_attention_backward(inputs.q(), inputs.k(), inputs.v(), inputs.tau, input, gradients, inputs.options());
  }
  static Shape<4> table_shape(const std::optional<RotaryView>& table) { return table ? table->cos.shape : Shape<4>{}; }
  bool same_bits(const W2GradientMemory& x) const {
    return q_mu.same_bits(x.q_mu) && q_log_sigma.same_bits(x.q_log_sigma) && k_mu.same_bits(x.k_mu) &&
           k_log_sigma.same_bits(x.k_log_sigma) && v_mu.same_bits(x.v_mu) && v_log_sigma.same_bits(x.v_log_sigma) &&
           alibi_slopes.same_bits(x.alibi_slopes) && query_scale.same_bits(x.query_scale) && mask.same_bits(x.mask) &&
           key_bias.same_bits(x.key_bias) && relative_bias.same_bits(x.relative_bias) && sinks.same_bits(x.sinks) &&
           tau == x.tau;
  }
};

// loss = out . grad_out + lse . grad_lse, over what is finite.
double loss(const reference::W2Problem<double>& w, const W2Case& c, const W2Inputs<float>& inputs) {
  const reference::W2Result<double> result = w2_forward(w);
  double sum = 0;
  std::size_t i = 0;
  inputs.means.grad_out.for_each([&](float g) { sum += g * result.mu.out.values[i++]; });
  i = 0;
  inputs.log_sigmas.grad_out.for_each([&](float g) { sum += g * result.log_sigma.values[i++]; });
  i = 0;
  inputs.means.grad_lse.for_each([&](float g) {
    const double lse = result.mu.lse.values[i++];
    if (c.grad_lse && std::isfinite(lse)) sum += g * lse;
  });
  return sum;
}

// Gradients in float are off by rounding, of terms as large as the largest gradient of the tensor; and by the errors of
// scores, which change weights, and with them gradients of scores, in proportion. In bf16, rows, weights and gradients
// of scores are rounded too.
class Differences {
 public:
  reference::W2Problem<double> problem;

  Differences(const W2Case& c, const W2Inputs<float>& inputs, bool narrow)
      : problem(inputs.problem<double>()), c_(c), inputs_(inputs) {
    const Centred x(problem);
    for (std::int64_t b = 0; b < c.batch; b++)
      for (std::int64_t h = 0; h < c.heads; h++)
        for (std::int64_t i = 0; i < c.queries; i++)
          for (std::int64_t j = 0; j < c.keys; j++)
            relative_ = std::max(
                relative_, x.score_error(problem, b, h, i, j) + (narrow ? x.rounding_error(problem, b, h, i, j) : 0.0));
    relative_ += narrow ? 0x1p-7 : 0x1p-18;
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

void check_case(const W2Case& c, Precision precision = Precision::storage) {
  W2Inputs<float> inputs(c);
  inputs.means.options.precision = precision;
  W2Outputs<float> outputs(c);
  outputs.run(inputs);
  W2GradientMemory<float> given(c, inputs.options());
  given.run(c, inputs, outputs);
  Differences d(c, inputs, precision == Precision::bf16);
  d.expect_equal("q_mu", d.problem.means.q, given.q_mu);
  d.expect_equal("q_log_sigma", d.problem.q_log_sigma, given.q_log_sigma);
  d.expect_equal("k_mu", d.problem.means.k, given.k_mu);
  d.expect_equal("k_log_sigma", d.problem.k_log_sigma, given.k_log_sigma);
  d.expect_equal("v_mu", d.problem.means.v, given.v_mu);
  d.expect_equal("v_log_sigma", d.problem.v_log_sigma, given.v_log_sigma);
  if (c.mask && !c.mask_is_expanded) d.expect_equal("mask", *d.problem.means.mask, given.mask);
  if (c.query_scale) d.expect_equal("query_scale", *d.problem.means.query_scale, given.query_scale);
  if (c.key_bias) d.expect_equal("key_bias", *d.problem.means.key_bias, given.key_bias);
  if (c.bias_span > 0) d.expect_equal("relative_bias", *d.problem.means.relative_bias, given.relative_bias);
  if (c.alibi) d.expect_equal("alibi_slopes", *d.problem.means.alibi_slopes, given.alibi_slopes);
  if (c.sinks) d.expect_equal("sinks", *d.problem.means.sinks, given.sinks);
  if (c.q_rotary.pairs > 0) {
    d.expect_equal("q_rotary.cos", d.problem.means.q_rotary->cos, given.cos_q);
    d.expect_equal("q_rotary.sin", d.problem.means.q_rotary->sin, given.sin_q);
  }
  if (c.k_rotary.pairs > 0) {
    d.expect_equal("k_rotary.cos", d.problem.means.k_rotary->cos, given.cos_k);
    d.expect_equal("k_rotary.sin", d.problem.means.k_rotary->sin, given.sin_k);
  }
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
    on_targets({"EMU_BF16"}, [&] { check_case(c, Precision::bf16); });
    if (HasFailure()) return;
  }
}

// In float and in bf16, on all targets that have it.
void check_everywhere(const W2Case& c) {
  on_every_target([&] { check_case(c); });
  on_every_target_and_emulations([&] {
    if (multiplies_bf16()) check_case(c, Precision::bf16);
  });
}

TEST(W2Gradient, EveryOptionAtOnce) {
  W2Case c;
  c.seed = 5;
  c.batch = 2, c.groups = 2, c.heads = 4, c.queries = 5, c.keys = 7, c.width = 6, c.value_width = 3;
  c.causal = true;
  c.window = Window(5, 5);
  c.key_lengths = {7, 4};
  c.visible = Shape<4>{2, 1, 5, 7};
  c.mask = Shape<4>{1, 4, 1, 7};
  c.key_bias = Shape<3>{1, 2, 7};
  c.bias_span = 4, c.first_distance = -3;
  c.q_rotary = c.k_rotary = {.pairs = 3};
  c.grad_lse = true;
  for (const double tau : {-2.0, 0.7, 40.0}) {
    c.tau = tau;
    check_everywhere(c);
  }
  c.scale = 0.4;
  c.softcap = 3;
  check_everywhere(c);
  c.sinks = true;
  check_everywhere(c);
}

void expect_same_bits_for_any_thread_count(const W2Case& c, Precision precision) {
  W2Inputs<float> inputs(c);
  inputs.means.options.precision = precision;
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

TEST(W2Gradient, SameBitsForAnyNumberOfThreads) {
  for (const std::uint32_t seed : seeds({.first = 1, .count = 40})) {
    SCOPED_TRACE(repeat_seed(seed));
    const W2Case c = random_w2_case(seed, 200'000);
    expect_same_bits_for_any_thread_count(c, Precision::float32);
    on_targets({"EMU_BF16"}, [&] { expect_same_bits_for_any_thread_count(c, Precision::bf16); });
  }
}

// The first query sees no key and has NaN: its gradients are 0, and no other has NaN.
template <class T>
void expect_numbers(double softcap, Precision precision) {
  W2Case c;
  c.heads = c.groups = 2, c.queries = c.keys = 20, c.width = c.value_width = 8;
  c.causal = true;
  c.query_offsets = {-1};
  c.softcap = softcap;
  W2Inputs<T> inputs(c);
  inputs.means.options.precision = precision;
  for (std::int64_t h = 0; h < c.heads; h++) inputs.means.q.view(0, h, 0, 3) = T(NAN);
  W2Outputs<T> outputs(c);
  outputs.run(inputs);
  W2GradientMemory<T> gradients(c, inputs.options());
  gradients.run(c, inputs, outputs);
  for (const auto* gradient : {&gradients.q_mu, &gradients.q_log_sigma}) {
    std::int64_t i = 0;
    gradient->for_each([&](const T& x) {
      const bool is_first = i++ / c.width % c.queries == 0;
      EXPECT_TRUE(is_first ? static_cast<float>(x) == 0 : std::isfinite(static_cast<float>(x))) << i - 1;
    });
  }
  for (const auto* gradient : {&gradients.k_mu, &gradients.k_log_sigma, &gradients.v_mu})
    gradient->for_each([&](const T& x) { EXPECT_TRUE(std::isfinite(static_cast<float>(x))); });
  EXPECT_TRUE(std::isfinite(gradients.tau));
}

TEST(W2Gradient, AQueryWithoutKeysMayHaveNaN) {
  on_every_target_and_emulations([] {
    for (const double softcap : {0.0, 5.0}) {
      expect_numbers<float>(softcap, Precision::storage);
      expect_numbers<float>(softcap, Precision::bf16);
      expect_numbers<f16>(softcap, Precision::storage);
      expect_numbers<bf16>(softcap, Precision::storage);
    }
  });
}

// In float arithmetic, results and gradients of 16-bit tensors are those of the same numbers in float, rounded. Of
// those of q and tau, what a rounding of the result adds to each row is taken off: python/tests_torch/narrow.py
// measures them.
template <class T>
void expect_rounded(std::uint32_t seed) {
  const W2Case c = random_w2_case(seed, 20'000);
  SCOPED_TRACE(testing::Message() << static_cast<const Case&>(c));
  W2Inputs<T> inputs(c);
  inputs.means.options.precision = Precision::float32;
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
       {std::pair{&inputs.means, &wide_inputs.means}, {&inputs.log_sigmas, &wide_inputs.log_sigmas}}) {
    widen(from->q, to->q);
    widen(from->k, to->k);
    widen(from->v, to->v);
    widen(from->grad_out, to->grad_out);
  }
  wide_outputs.run(wide_inputs);
  const auto expect_same = [](const Guarded<float, 4>& from, const Guarded<T, 4>& rounded) {
    std::vector<std::uint16_t> bits;
    from.for_each([&](const float& element) { bits.push_back(T(element).bits); });
    std::size_t i = 0, wrong = 0;
    rounded.for_each([&](const T& element) { wrong += element.bits != bits[i++]; });
    EXPECT_EQ(wrong, 0u);
  };
  expect_same(wide_outputs.mu, outputs.mu);
  expect_same(wide_outputs.log_sigma, outputs.log_sigma);
  EXPECT_TRUE(wide_outputs.softmax.same_bits(outputs.softmax));
  widen(outputs.mu, wide_outputs.mu);
  widen(outputs.log_sigma, wide_outputs.log_sigma);
  W2GradientMemory<float> wide(c, wide_inputs.options());
  wide.run(c, wide_inputs, wide_outputs);
  expect_same(wide.k_mu, narrow.k_mu);
  expect_same(wide.k_log_sigma, narrow.k_log_sigma);
  expect_same(wide.v_mu, narrow.v_mu);
  expect_same(wide.v_log_sigma, narrow.v_log_sigma);
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
