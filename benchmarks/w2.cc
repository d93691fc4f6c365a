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

template <class T>
struct Streams {
  Tensor<T, 4> mu, log_sigma;
  explicit Streams(const Shape<4>& shape) : mu(shape), log_sigma(shape) {}
  Streams(const Shape<4>& shape, std::size_t seed)
      : mu(random_tensor<T, 4>(shape, seed)), log_sigma(random_tensor<T, 4>(shape, seed + 10)) {}
  W2Streams<T> view() { return {mu.view(), log_sigma.view()}; }
  W2Streams<const T> view() const { return {mu.view(), log_sigma.view()}; }
};

double operations(const AttentionShape& shape, const AttentionOptions& options) {
  return forward_operations(shape, options, 2 * shape.channels);
}

template <class T>
void forward(benchmark::State& state, const AttentionShape& shape, const std::string& plain) {
  const Streams<T> q(shape.queries(), 1), k(shape.keys(), 2), v(shape.keys(), 3);
  Streams<T> out(shape.queries());
  const AttentionOptions options{.causal = shape.causal};
  for (auto _ : state) {
    w2_attention_forward(q.view(), k.view(), v.view(), kTau, {.out = out.view()}, options);
    benchmark::ClobberMemory();
  }
  count_operations(state, operations(shape, options));
  compare_with(state, plain);
}

template <class T>
void forward_and_backward(benchmark::State& state, const AttentionShape& shape, const std::string& plain) {
  const Streams<T> q(shape.queries(), 1), k(shape.keys(), 2), v(shape.keys(), 3), grad_out(shape.queries(), 4);
  Streams<T> out(shape.queries()), grad_q(shape.queries()), grad_k(shape.keys()), grad_v(shape.keys());
  Tensor<float, 4> softmax({shape.batch, shape.heads, shape.tokens, 2});
  double grad_tau = 0.0;
  const W2BackwardInput<T> input{
      .out = std::as_const(out).view(), .softmax = softmax.view(), .grad_out = grad_out.view()};
  const W2Gradients<T> gradients{.q = grad_q.view(), .k = grad_k.view(), .v = grad_v.view(), .tau = &grad_tau};
  const AttentionOptions options{.causal = shape.causal};
  for (auto _ : state) {
    w2_attention_forward(q.view(), k.view(), v.view(), kTau, {.out = out.view(), .softmax = softmax.view()}, options);
    w2_attention_backward(q.view(), k.view(), v.view(), kTau, input, gradients, options);
    benchmark::ClobberMemory();
  }
  count_operations(state, kForwardAndBackward * operations(shape, options));
  compare_with(state, plain);
}

const bool registered = [] {
  const AttentionShape shape{.causal = true};
  const std::string name = shape_name(shape);
  const std::string inference = "w2/forward/float/" + name, training = "w2/training/float/" + name;
  const auto add = [&](const std::string& of, const auto& run, const std::string& plain) {
    benchmark::RegisterBenchmark(of.c_str(), run, shape, plain)->UseRealTime();
  };
  add(inference, forward<float>, "");
  add(training, forward_and_backward<float>, "");
  add("w2/forward/bf16/" + name, forward<bf16>, inference);
  add("w2/training/bf16/" + name, forward_and_backward<bf16>, training);
  return true;
}();

}  // namespace
}  // namespace phasor::bench
