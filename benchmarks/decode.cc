// One new token of a model with 32 query heads over 8 key heads of 128 channels: the cache is read once, which is all
// the time it takes.
#include <benchmark/benchmark.h>

#include <string>

#include "counting.h"
#include "phasor/attention/attention.h"
#include "random_tensor.h"

namespace phasor::bench {
namespace {

constexpr std::int64_t kHeads = 32, kKeyHeads = 8, kChannels = 128;

template <class T>
void decode(benchmark::State& state, std::int64_t keys, const std::string& plain) {
  const Tensor<T, 4> q = random_tensor<T, 4>({1, kHeads, 1, kChannels}, 1);
  const Tensor<T, 4> k = random_tensor<T, 4>({1, kKeyHeads, keys, kChannels}, 2);
  const Tensor<T, 4> v = random_tensor<T, 4>({1, kKeyHeads, keys, kChannels}, 3);
  Tensor<T, 4> out(q.shape());
  for (auto _ : state) {
    attention_forward(q.view(), k.view(), v.view(), {.out = out.view()}, {.causal = true});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (k.size() + v.size()) * static_cast<std::int64_t>(sizeof(T)));
  compare_with(state, plain);
}

// A 16-bit cache is shown beside that of floats: its time as a part of theirs.
const bool registered = [] {
  for (const std::int64_t keys : {4096, 32768}) {
    const std::string size = "H32-8/S" + std::to_string(keys) + "/D128", plain = "decode/float/" + size;
    benchmark::RegisterBenchmark(plain.c_str(), decode<float>, keys, "")->UseRealTime();
    benchmark::RegisterBenchmark(("decode/bf16/" + size).c_str(), decode<bf16>, keys, plain)->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace phasor::bench
