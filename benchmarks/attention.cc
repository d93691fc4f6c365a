// Attention forward: plain, beside it with each feature, at the sizes of real models.
#include "phasor/attention/attention.h"

#include <benchmark/benchmark.h>

#include <string>

#include "attention_case.h"
#include "counting.h"

namespace phasor::bench {
namespace {

template <class T>
void forward(benchmark::State& state, const AttentionCase& c, const std::string& plain) {
  const AttentionInputs<T> inputs(c.shape);
  Tensor<T, 4> out(c.shape.queries());
  CaseOptions with;
  c.fill(with);
  for (auto _ : state) {
    attention_forward(inputs.q.view(), inputs.k.view(), inputs.v.view(), {.out = out.view()}, with.options);
    benchmark::ClobberMemory();
  }
  count_operations(state, forward_operations(c.shape, with.options, c.shape.channels));
  if (c.has_window()) count_queries(state, static_cast<double>(c.shape.tokens));
  compare_with(state, plain);
}

constexpr const char* kFloat = "forward/float/";

void add(const AttentionCase& c) {
  benchmark::RegisterBenchmark(c.name(kFloat).c_str(), forward<float>, c, c.plain_name(kFloat))->UseRealTime();
}

// Shown beside the same shape in floats.
void add_bf16(const AttentionCase& c) {
  benchmark::RegisterBenchmark(c.name("forward/bf16/").c_str(), forward<bf16>, c, c.name(kFloat))->UseRealTime();
}

const bool registered = [] {
  for (const bool causal : {false, true})
    for (const std::int64_t channels : {64, 128})
      for (const std::int64_t tokens : {2048, 8192}) add({{.tokens = tokens, .channels = channels, .causal = causal}});
  add({{.heads = 32, .key_heads = 8, .channels = 128, .causal = true}});
  add({{.tokens = 512, .causal = true}});
  for (const AttentionShape& shape : odd_shapes()) add({shape});
  for (const bool causal : {false, true}) {
    for (const Feature& feature : {kWithAlibi, kRotation, kKeyLengths}) add({{.causal = causal}, feature});
    for (const std::int64_t channels : {64, 128}) add_bf16({{.channels = channels, .causal = causal}});
  }
  for (const std::int64_t tokens : {2048, 4096, 8192, 16384}) add({{.tokens = tokens, .causal = true}, kWindow});
  return true;
}();

}  // namespace
}  // namespace phasor::bench
