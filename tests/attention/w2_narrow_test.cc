// W2 attention in bf16: what does not depend on rounding is exact. Random cases: w2_random_test.cc,
// w2_gradient_test.cc.
#include <cmath>

#include "attention/error_rule.h"
#include "attention/w2_case.h"
#include "support/every_target.h"

namespace phasor {
namespace {

template <class Check>
void on_targets_of_bf16(const Check& check) {
  on_every_target_and_emulations([&] {
    if (multiplies_bf16()) check();
  });
}

std::vector<double> numbers(const Guarded<float, 4>& tensor) {
  std::vector<double> result;
  tensor.for_each([&](float x) { result.push_back(x); });
  return result;
}

W2Case square_case(std::int64_t tokens, std::int64_t width) {
  W2Case c;
  c.heads = c.groups = 2, c.queries = c.keys = tokens, c.width = c.value_width = width;
  return c;
}

// Whole numbers of 8 bits and sigmas of 1: nothing is rounded, neither rows nor sums, and norms need 20 bits. Some
// channels have a middle, others have none.
TEST(W2Narrow, NumbersOfBf16GiveTheScoresOfFloat) {
  W2Case c = square_case(70, 40);
  c.tau = 2e4;
  W2Inputs<bf16> inputs(c);
  for (Guarded<bf16, 4>* mu : {&inputs.means.q, &inputs.means.k}) {
    int i = 0;
    mu->for_each([&](bf16& x) {
      const bool far = i++ % 40 < 20;
      x = bf16(std::nearbyint((far ? 192.0f : 0.0f) + (far ? 20.0f : 200.0f) * std::tanh(static_cast<float>(x))));
    });
  }
  for (Guarded<bf16, 4>* log_sigma : {&inputs.log_sigmas.q, &inputs.log_sigmas.k})
    log_sigma->for_each([&](bf16& x) { x = bf16(0.0f); });
  inputs.means.options.precision = Precision::float32;
  W2Outputs<bf16> wide(c);
  wide.run(inputs);
  inputs.means.options.precision = Precision::storage;
  on_targets_of_bf16([&] {
    W2Outputs<bf16> outputs(c);
    outputs.run(inputs);
    const std::vector<double> given = numbers(outputs.weights), expected = numbers(wide.weights);
    for (std::size_t i = 0; i < given.size(); i++) ASSERT_NEAR(given[i], expected[i], 1e-5 * expected[i]) << i;
  });
}

// A query beside a key that is the same: the largest score is 0 up to rounding in float, although both are rounded.
TEST(W2Narrow, EqualRowsAreAtDistanceZero) {
  for (const bool rotates : {false, true}) {
    W2Case c = square_case(40, 64);
    if (rotates) c.q_rotary = c.k_rotary = {.pairs = 32};
    W2Inputs<bf16> inputs(c);
    for (Inputs<bf16>* stream : {&inputs.means, &inputs.log_sigmas}) {
      std::vector<bf16> keys;
      stream->k.for_each([&](const bf16& x) { keys.push_back(x); });
      std::size_t i = 0;
      stream->q.for_each([&](bf16& x) { x = keys[i++]; });
    }
    if (rotates) inputs.means.options.k_rotary = inputs.means.options.q_rotary;
    on_targets_of_bf16([&] {
      W2Outputs<bf16> outputs(c);
      outputs.run(inputs);
      const std::vector<double> softmax = numbers(outputs.softmax);
      for (std::size_t i = 0; i < softmax.size(); i += 2) ASSERT_NEAR(softmax[i], 0, 0x1p-12) << i / 2;
    });
  }
}

}  // namespace
}  // namespace phasor
