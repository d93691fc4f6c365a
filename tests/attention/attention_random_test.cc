// attention_forward and attention_backward against the double reference: random cases on every SIMD target.
#include <cmath>
#include <optional>

#include "attention/error_rule.h"
#include "attention/random_case.h"
#include "phasor/core/parallel.h"
#include "reference/attention_backward.h"
#include "support/every_target.h"
#include "support/seeds.h"

namespace phasor {
namespace {

constexpr std::uint32_t kCases = 2160, kShards = 8;

template <class T>
struct Outputs {
  Guarded<T, 4> out;
  Guarded<float, 3> lse;
  Guarded<float, 4> softmax, weights;

  explicit Outputs(const Case& c)
      : out({c.batch, c.heads, c.queries, c.value_width}, c.layout),
        lse({c.batch, c.heads, c.queries}, c.lse_layout),
        softmax({c.batch, c.heads, c.queries, 2}, c.lse_layout),
        weights({c.batch, c.heads, c.queries, c.keys}, c.layout) {}

  void run(const Case& c, const Inputs<T>& inputs) {
    out.reset();
    lse.reset();
    softmax.reset();
    weights.reset();
    AttentionOutput<T> output{.out = out.view, .softmax = softmax.view};
    if (c.lse) output.lse = lse.view;
    if (c.weights) output.weights = weights.view;
    attention_forward(inputs.q.view, inputs.k.view, inputs.v.view, output, inputs.options);
  }
  bool same_bits(const Outputs& other) const {
    return out.same_bits(other.out) && lse.same_bits(other.lse) && softmax.same_bits(other.softmax) &&
           weights.same_bits(other.weights);
  }
};

// What the backward pass is given of the forward pass: the exact result, rounded to storage. The references read the
// same `out`. So its rounding to 16 bits, which shifts grad_out . out and with it the gradients, is no error of the
// backward pass, and neither is what the forward kernel did. The softmax is different: the references compute their
// weights from the scores, so what its rounding does to the weights is an error of the kernel.
template <class T>
struct Stored {
  Guarded<T, 4> out;
  Guarded<float, 4> softmax;

  Stored(const Case& c, const reference::Result<reference::Sized>& exact)
      : out({c.batch, c.heads, c.queries, c.value_width}, c.layout),
        softmax({c.batch, c.heads, c.queries, 2}, c.lse_layout) {
    std::size_t i = 0;
    out.for_each([&](T& element) { element = T(static_cast<float>(exact.out.values[i++].value)); });
    i = 0;
    softmax.for_each([&](float& element) {
      const double lse = exact.lse.values[i / 2].value / std::log(2.0), largest = static_cast<float>(lse);
      const bool empty = std::isinf(lse);
      element = static_cast<float>(i++ % 2 == 0 ? lse : empty ? 0 : std::exp2(lse - largest));
    });
  }
};

template <class T>
struct Gradients {
  Guarded<T, 4> q, k, v;
  Guarded<float, 4> mask;
  Guarded<float, 3> key_bias, query_scale;
  Guarded<float, 2> relative_bias;
  Guarded<float, 1> alibi_slopes, sinks;
  Guarded<float, 4> cos_q, sin_q, cos_k, sin_k;

  Gradients(const Case& c, const AttentionOptions& options)
      : q({c.batch, c.heads, c.queries, c.width}, c.layout),
        k({c.batch, c.groups, c.keys, c.width}, c.layout),
        v({c.batch, c.groups, c.keys, c.value_width}, c.layout),
        mask(options.mask.added.shape, {.gap = c.layout.gap}),
        key_bias(options.key_bias.shape, {.gap = c.layout.gap}),
        query_scale(options.query_scale.shape, {.gap = c.layout.gap}),
        relative_bias({c.heads, c.bias_span}, {.gap = c.layout.gap}),
        alibi_slopes({c.heads}),
        sinks({c.heads}),
        cos_q(table_shape(options.q_rotary)),
        sin_q(table_shape(options.q_rotary)),
        cos_k(table_shape(options.k_rotary)),
        sin_k(table_shape(options.k_rotary)) {}

  void run(const Case& c, const Inputs<T>& inputs, const Stored<T>& stored) {
    q.reset();
    k.reset();
    v.reset();
    mask.reset();
    key_bias.reset();
    query_scale.reset();
    relative_bias.reset();
    alibi_slopes.reset();
    sinks.reset();
    for (Guarded<float, 4>* numbers : {&cos_q, &sin_q, &cos_k, &sin_k}) numbers->reset();
    AttentionBackwardInput<T> input{
        .out = stored.out.view, .softmax = stored.softmax.view, .grad_out = inputs.grad_out.view};
    if (c.grad_lse) input.grad_lse = inputs.grad_lse.view;
    AttentionGradients<T> gradients{.q = q.view, .k = k.view, .v = v.view};
    if (c.mask) gradients.mask = mask.view;
    if (c.key_bias) gradients.key_bias = key_bias.view;
    if (c.query_scale) gradients.query_scale = query_scale.view;
    if (c.bias_span > 0) gradients.relative_bias = relative_bias.view;
    if (c.alibi) gradients.alibi_slopes = alibi_slopes.view;
    if (c.sinks) gradients.sinks = sinks.view;
    if (c.table_gradients && c.q_rotary.pairs > 0) gradients.q_rotary = {cos_q.view, sin_q.view};
    if (c.table_gradients && c.k_rotary.pairs > 0) gradients.k_rotary = {cos_k.view, sin_k.view};
    attention_backward(inputs.q.view, inputs.k.view, inputs.v.view, input, gradients, inputs.options);
  }
  bool same_bits(const Gradients& other) const {
    return q.same_bits(other.q) && k.same_bits(other.k) && v.same_bits(other.v) && mask.same_bits(other.mask) &&
           key_bias.same_bits(other.key_bias) && query_scale.same_bits(other.query_scale) &&
           relative_bias.same_bits(other.relative_bias) && alibi_slopes.same_bits(other.alibi_slopes) &&
           sinks.same_bits(other.sinks) && cos_q.same_bits(other.cos_q) && sin_q.same_bits(other.sin_q) &&
           cos_k.same_bits(other.cos_k) && sin_k.same_bits(other.sin_k);
  }

 private:
  static Shape<4> table_shape(const std::optional<RotaryView>& table) { return table ? table->cos.shape : Shape<4>{}; }
};

template <class Real, class T>
reference::Problem<Real> problem_as(const Inputs<T>& inputs, reference::Narrow narrow = reference::Narrow::nothing) {
  auto problem = reference::problem<Real, T>(inputs.q.view, inputs.k.view, inputs.v.view, inputs.options);
  problem.narrow = narrow;
  return problem;
}

// Whether kernels multiply these operands in bf16 on some targets.
template <class T>
constexpr bool kMayBeNarrow = std::is_same_v<T, bf16>;

template <class T>
struct ExpectedForward {
  reference::Result<reference::Sized> exact;
  Expected<4> out, weights, narrow_out, narrow_weights;
  Expected<3> lse, narrow_lse;

  explicit ExpectedForward(const Inputs<T>& inputs) : exact(reference::forward(problem_as<reference::Sized>(inputs))) {
    const reference::Result<float> plain = reference::forward(problem_as<float>(inputs));
    out = {exact.out, plain.out};
    narrow_weights = weights = {exact.weights, plain.weights};
    narrow_lse = lse = {exact.lse, plain.lse};
    if (!kMayBeNarrow<T>) return;
    const auto narrow = reference::forward(problem_as<float>(inputs, reference::Narrow::operands));
    narrow_out = out.rounding_operands(narrow.out);
    // bf16 without a rotation is multiplied as it is: scores are those of floats.
    if (!inputs.options.q_rotary && !inputs.options.k_rotary) return;
    narrow_weights = weights.rounding_operands(narrow.weights);
    narrow_lse = lse.rounding_operands(narrow.lse);
  }

  void check(const Case& c, const Outputs<T>& outputs) const {
    const bool narrow = kMayBeNarrow<T> && multiplies_bf16();
    expect_obeys_error_rule("out", outputs.out, narrow ? narrow_out : out);
    if (c.lse) expect_obeys_error_rule("lse", outputs.lse, narrow ? narrow_lse : lse);
    if (c.weights) expect_obeys_error_rule("weights", outputs.weights, narrow ? narrow_weights : weights);
    if (!c.lse) outputs.lse.expect_guards("lse");
    if (!c.weights) outputs.weights.expect_guards("weights");
    expect_exact_zeros("out", outputs.out, out);
    if (c.weights) expect_exact_zeros("weights", outputs.weights, weights);
    check_softmax(outputs, narrow ? narrow_lse : lse);
  }

 private:
  // The largest score and the sum make up the log-sum-exp.
  static void check_softmax(const Outputs<T>& outputs, const Expected<3>& lse) {
    Guarded<float, 3> found(lse.exact.shape, {});
    std::vector<float> values;
    outputs.softmax.expect_guards("softmax");
    outputs.softmax.for_each([&](float x) { values.push_back(x); });
    std::size_t i = 0;
    found.for_each([&](float& x) {
      x = static_cast<float>(std::log(2.0) * (values[i] + std::log2(static_cast<double>(values[i + 1]))));
      i += 2;
    });
    expect_obeys_error_rule("softmax", found, lse);
  }
};

template <class T>
struct ExpectedBackward {
  using Sized = reference::Sized;
  Expected<4> q, k, v, mask;
  Expected<3> key_bias, query_scale;
  Expected<2> relative_bias;
  Expected<1> alibi_slopes, sinks;
  Expected<4> cos_q, sin_q, cos_k, sin_k;

  // narrow: for kernels that multiply in bf16.
  ExpectedBackward(const Case& c, const Inputs<T>& inputs, const Stored<T>& stored, reference::Narrow narrow) {
    const reference::Gradients<Sized> exact =
        reference::backward(problem_as<Sized>(inputs), given_as<Sized>(c, inputs, stored));
    const reference::Gradients<float> plain =
        reference::backward(problem_as<float>(inputs, narrow), given_as<float>(c, inputs, stored));
    q = {exact.q, plain.q};
    k = {exact.k, plain.k};
    v = {exact.v, plain.v};
    if (c.mask) mask = {*exact.mask, *plain.mask};
    if (c.key_bias) key_bias = {*exact.key_bias, *plain.key_bias};
    if (c.query_scale) query_scale = {*exact.query_scale, *plain.query_scale};
    if (c.bias_span > 0) relative_bias = {*exact.relative_bias, *plain.relative_bias};
    if (c.alibi) alibi_slopes = {*exact.alibi_slopes, *plain.alibi_slopes};
    if (c.sinks) sinks = {*exact.sinks, *plain.sinks};
    if (exact.q_rotary) cos_q = {exact.q_rotary->cos, plain.q_rotary->cos};
    if (exact.q_rotary) sin_q = {exact.q_rotary->sin, plain.q_rotary->sin};
    if (exact.k_rotary) cos_k = {exact.k_rotary->cos, plain.k_rotary->cos};
    if (exact.k_rotary) sin_k = {exact.k_rotary->sin, plain.k_rotary->sin};
    if (narrow == reference::Narrow::nothing) return;
    for (Expected<4>* product : {&q, &k, &v, &cos_q, &sin_q, &cos_k, &sin_k}) product->rounds_operands = true;
    query_scale.rounds_operands = true;
    // bf16 without a rotation is multiplied as it is: the gradients of scores are those of floats.
    const bool rotates = c.q_rotary.pairs > 0 || c.k_rotary.pairs > 0;
    mask.rounds_operands = key_bias.rounds_operands = relative_bias.rounds_operands = rotates;
    alibi_slopes.rounds_operands = sinks.rounds_operands = rotates;
  }

  void check(const Case& c, const Gradients<T>& gradients) const {
    expect_obeys_error_rule("gradients.q", gradients.q, q);
    expect_obeys_error_rule("gradients.k", gradients.k, k);
    expect_obeys_error_rule("gradients.v", gradients.v, v);
    expect_exact_zeros("gradients.v", gradients.v, v);
    if (c.mask) expect_obeys_error_rule("gradients.mask", gradients.mask, mask);
    if (c.key_bias) expect_obeys_error_rule("gradients.key_bias", gradients.key_bias, key_bias);
    if (c.query_scale) expect_obeys_error_rule("gradients.query_scale", gradients.query_scale, query_scale);
    if (c.bias_span > 0) expect_obeys_error_rule("gradients.relative_bias", gradients.relative_bias, relative_bias);
    if (c.alibi) expect_obeys_error_rule("gradients.alibi_slopes", gradients.alibi_slopes, alibi_slopes);
    if (c.sinks) expect_obeys_error_rule("gradients.sinks", gradients.sinks, sinks);
    if (c.table_gradients && c.q_rotary.pairs > 0) {
      expect_obeys_error_rule("gradients.q_rotary.cos", gradients.cos_q, cos_q);
      expect_obeys_error_rule("gradients.q_rotary.sin", gradients.sin_q, sin_q);
    }
    if (c.table_gradients && c.k_rotary.pairs > 0) {
      expect_obeys_error_rule("gradients.k_rotary.cos", gradients.cos_k, cos_k);
      expect_obeys_error_rule("gradients.k_rotary.sin", gradients.sin_k, sin_k);
    }
  }

 private:
  template <class Real>
  static reference::Given<Real> given_as(const Case& c, const Inputs<T>& inputs, const Stored<T>& stored) {
    reference::Given<Real> given{
        reference::read<Real>(stored.out.view), reference::read<Real>(inputs.grad_out.view), {}};
    if (c.grad_lse) given.grad_lse = reference::read<Real>(inputs.grad_lse.view);
    return given;
  }
};

template <class T>
void expect_same_bits_for_any_thread_count(const Case& c, const Inputs<T>& inputs, const Stored<T>& stored) {
  Outputs<T> one(c), other(c);
  Gradients<T> one_back(c, inputs.options), other_back(c, inputs.options);
  set_num_threads(1);
  one.run(c, inputs);
  one_back.run(c, inputs, stored);
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    other.run(c, inputs);
    EXPECT_TRUE(one.same_bits(other)) << threads << " threads";
    other_back.run(c, inputs, stored);
    EXPECT_TRUE(one_back.same_bits(other_back)) << threads << " threads, backward";
  }
  set_num_threads(0);
}

template <class T>
void expect_equals_reference(const Case& c, const char* type) {
  SCOPED_TRACE(testing::Message() << type << ' ' << c);
  const Inputs<T> inputs(c);
  const ExpectedForward<T> forward(inputs);
  const Stored<T> stored(c, forward.exact);
  const ExpectedBackward<T> backward(c, inputs, stored, reference::Narrow::nothing);
  std::optional<ExpectedBackward<T>> narrow_backward;
  if (kMayBeNarrow<T>) narrow_backward.emplace(c, inputs, stored, reference::Narrow::operands);
  Outputs<T> outputs(c);
  Gradients<T> gradients(c, inputs.options);
  set_num_threads(1);  // shards run side by side
  on_every_target_and_emulations([&] {
    outputs.run(c, inputs);
    forward.check(c, outputs);
    gradients.run(c, inputs, stored);
    (narrow_backward && multiplies_bf16() ? *narrow_backward : backward).check(c, gradients);
  });
  set_num_threads(0);
  if (c.seed % 8 != 0) return;
  expect_same_bits_for_any_thread_count(c, inputs, stored);
  if (kMayBeNarrow<T>) on_targets({"EMU_BF16"}, [&] { expect_same_bits_for_any_thread_count(c, inputs, stored); });
}

class RandomAttention : public testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomAttention, EqualsReference) {
  for (const std::uint32_t seed : seeds({.count = kCases, .shard = GetParam(), .shards = kShards})) {
    SCOPED_TRACE(repeat_seed(seed));
    const Case c = random_case(seed);
    if (seed % 4 == 0)
      expect_equals_reference<bf16>(c, "bf16");
    else if (seed % 4 == 1)
      expect_equals_reference<f16>(c, "f16");
    else
      expect_equals_reference<float>(c, "float");
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomAttention, testing::Range(0u, kShards));

}  // namespace
}  // namespace phasor
