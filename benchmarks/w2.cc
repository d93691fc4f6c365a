// Wasserstein-2 attention at head size 64: dot products over 128 channels, values of 128 channels.
#include "phasor/attention/w2.h"

#include <benchmark/benchmark.h>

#include <string>
#include <utility>

#include "attention_case.h"
#include "counting.h"

namespace phasor::bench {
namespace {

constexpr double kTau = 16.0;

// Both streams. Sigma and the log of the variance may as well be normal numbers: the time does not depend on them.
struct Streams {
  Tensor<float, 4> mean, spread;
  explicit Streams(const Shape<4>& shape) : mean(shape), spread(shape) {}
  Streams(const Shape<4>& shape, std::size_t seed)
      : mean(random_tensor<float, 4>(shape, seed)), spread(random_tensor<float, 4>(shape, seed + 10)) {}
  W2Streams<float> view() { return {mean.view(), spread.view()}; }
  W2Streams<const float> view() const { return {mean.view(), spread.view()}; }
};

double operations(const AttentionShape& shape, const AttentionOptions& options) {
  return forward_operations(shape, options, 2 * shape.channels);
}

void forward(benchmark::State& state, const AttentionShape& shape) {
  const Streams q(shape.queries(), 1), k(shape.keys(), 2), v(shape.keys(), 3);
  Streams out(shape.queries());
  const AttentionOptions options{.causal = shape.causal};
  for (auto _ : state) {
    w2_attention_forward(q.view(), k.view(), v.view(), kTau, {.out = out.view()}, options);
    benchmark::ClobberMemory();
  }
  count_operations(state, operations(shape, options));
}

void forward_and_backward(benchmark::State& state, const AttentionShape& shape) {
  const Streams q(shape.queries(), 1), k(shape.keys(), 2), v(shape.keys(), 3), grad_out(shape.queries(), 4);
  Streams out(shape.queries()), grad_q(shape.queries()), grad_k(shape.keys()), grad_v(shape.keys());
  Tensor<float, 3> lse({shape.batch, shape.heads, shape.tokens});
  double grad_tau = 0.0;
  const W2Result<float> result{.out = std::as_const(out).view(), .lse = lse.view(), .grad_out = grad_out.view()};
  const W2Gradients<float> gradients{.q = grad_q.view(), .k = grad_k.view(), .v = grad_v.view(), .tau = &grad_tau};
  const AttentionOptions options{.causal = shape.causal};
  for (auto _ : state) {
    w2_attention_forward(q.view(), k.view(), v.view(), kTau, {.out = out.view(), .lse = lse.view()}, options);
    w2_attention_backward(q.view(), k.view(), v.view(), kTau, result, gradients, options);
    benchmark::ClobberMemory();
  }
  count_operations(state, kForwardAndBackward * operations(shape, options));
}

const bool registered = [] {
  const AttentionShape shape{.causal = true};
  const std::string name = shape_name(shape);
  benchmark::RegisterBenchmark(("w2/forward/float/" + name).c_str(), forward, shape)->UseRealTime();
  benchmark::RegisterBenchmark(("w2/training/float/" + name).c_str(), forward_and_backward, shape)->UseRealTime();
  return true;
}();

}  // namespace
}  // namespace phasor::bench
