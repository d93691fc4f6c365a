// Attention forward + backward: plain, beside it with each feature that costs there, at the sizes of real models.
#include <benchmark/benchmark.h>

#include <string>

#include "attention_case.h"
#include "counting.h"
#include "phasor/attention/attention.h"

namespace phasor::bench {
namespace {

template <class T>
void forward_and_backward(benchmark::State& state, const AttentionCase& c, const std::string& plain) {
  const AttentionInputs<T> inputs(c.shape);
  const auto q = inputs.q.view(), k = inputs.k.view(), v = inputs.v.view();
  const Tensor<T, 4> grad_out = random_tensor<T, 4>(c.shape.queries(), 4);
  Tensor<T, 4> out(c.shape.queries()), grad_q(c.shape.queries()), grad_k(c.shape.keys()), grad_v(c.shape.keys());
  Tensor<float, 4> softmax({c.shape.batch, c.shape.heads, c.shape.tokens, 2});
  CaseOptions with;
  c.fill(with);
  Tensor<float, 2> grad_bias(with.bias.table.shape());  // has no data when there is no table: not asked for
  for (auto _ : state) {
    attention_forward(q, k, v, {.out = out.view(), .softmax = softmax.view()}, with.options);
    attention_backward(q, k, v, {.out = out.view(), .softmax = softmax.view(), .grad_out = grad_out.view()},
                       {.q = grad_q.view(), .k = grad_k.view(), .v = grad_v.view(), .relative_bias = grad_bias.view()},
                       with.options);
    benchmark::ClobberMemory();
  }
  count_operations(state, kForwardAndBackward * forward_operations(c.shape, with.options, c.shape.channels));
  compare_with(state, plain);
}

constexpr const char* kFloat = "training/float/";

void add(const AttentionCase& c) {
  benchmark::RegisterBenchmark(c.name(kFloat).c_str(), forward_and_backward<float>, c, c.plain_name(kFloat))
      ->UseRealTime();
}

// Shown beside the same shape in floats.
void add_bf16(const AttentionCase& c) {
  benchmark::RegisterBenchmark(c.name("training/bf16/").c_str(), forward_and_backward<bf16>, c, c.name(kFloat))
      ->UseRealTime();
}

const bool registered = [] {
  for (const bool causal : {false, true})
    for (const std::int64_t channels : {64, 128})
      for (const std::int64_t tokens : {1024, 2048}) add({{.tokens = tokens, .channels = channels, .causal = causal}});
  for (const bool causal : {false, true})
    for (const std::int64_t channels : {64, 128}) add_bf16({{.channels = channels, .causal = causal}});
  add({{.heads = 1, .key_heads = 1, .tokens = 4096, .causal = true}});
  for (const AttentionShape& shape : odd_shapes()) add({shape});
  for (const bool causal : {false, true})
    for (const Feature& feature : {kLearnedBias, kLearnedBiasClamped, kDropout}) add({{.causal = causal}, feature});
  return true;
}();

}  // namespace
}  // namespace phasor::bench
