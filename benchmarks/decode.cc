// One new token of a model with 32 query heads over 8 key heads of 128 channels: the cache is read once, which is all
// the time it takes, and with 8 bits in a quarter of the time of floats. In pages it should take no longer.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "counting.h"
#include "phasor/attention/attention.h"
#include "phasor/attention/paged_kv_cache.h"
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

void decode_int8(benchmark::State& state, std::int64_t keys, const std::string& plain) {
  constexpr std::int64_t kTokens = 1024;
  const Tensor<float, 4> q = random_tensor<float, 4>({1, kHeads, 1, kChannels}, 1);
  const Tensor<float, 4> k = random_tensor<float, 4>({1, kKeyHeads, kTokens, kChannels}, 2);
  KvCache cache({.key_heads = kKeyHeads, .capacity = keys, .channels = kChannels, .storage = CacheStorage::int8});
  while (cache.longest() < keys) cache.append(k.view(), k.view());
  Tensor<float, 4> out(q.shape());
  for (auto _ : state) {
    attention_forward(q.view(), cache, {.out = out.view()}, {.causal = true});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * kKeyHeads * keys * (kChannels + std::int64_t{sizeof(float)}));
  compare_with(state, plain);
}

// The same tokens in pages, in random order.
template <class T>
void decode_pages(benchmark::State& state, std::int64_t keys, std::int64_t page_size, const std::string& plain) {
  using Query = std::conditional_t<std::is_same_v<T, std::int8_t>, float, T>;
  const std::int64_t count = keys / page_size;
  const Tensor<Query, 4> q = random_tensor<Query, 4>({1, kHeads, 1, kChannels}, 1);
  const Tensor<T, 4> k = random_tensor<T, 4>({count, kKeyHeads, page_size, kChannels}, 2);
  const Tensor<T, 4> v = random_tensor<T, 4>({count, kKeyHeads, page_size, kChannels}, 3);
  std::vector<std::int32_t> table(static_cast<std::size_t>(count));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(4));
  const std::vector<std::int64_t> lengths{keys};
  const Tensor<float, 3> scales = random_tensor<float, 3>({count, kKeyHeads, page_size}, 4);
  KvPages<T> pages{k.view(), v.view(), {table.data(), {1, count}}, lengths};
  if (std::is_same_v<T, std::int8_t>) pages.key_scales = pages.value_scales = scales.view();
  Tensor<Query, 4> out(q.shape());
  for (auto _ : state) {
    attention_forward(q.view(), pages, {.out = out.view()}, {.causal = true});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (k.size() + v.size()) * static_cast<std::int64_t>(sizeof(T)));
  compare_with(state, plain);
}

template <class T>
void register_pages(const std::string& type, std::int64_t keys) {
  const std::string size = "H32-8/S" + std::to_string(keys) + "/D128", plain = "decode/" + type + "/" + size;
  for (const std::int64_t page_size : {16, 64, 256}) {
    const std::string name = "decode-pages-of-" + std::to_string(page_size) + "/" + type + "/" + size;
    benchmark::RegisterBenchmark(name.c_str(), decode_pages<T>, keys, page_size, plain)->UseRealTime();
  }
}

// A cache of 16 or 8 bits is shown beside that of floats: its time as a part of theirs.
const bool registered = [] {
  for (const std::int64_t keys : {4096, 32768}) {
    const std::string size = "H32-8/S" + std::to_string(keys) + "/D128", plain = "decode/float/" + size;
    benchmark::RegisterBenchmark(plain.c_str(), decode<float>, keys, "")->UseRealTime();
    benchmark::RegisterBenchmark(("decode/bf16/" + size).c_str(), decode<bf16>, keys, plain)->UseRealTime();
    benchmark::RegisterBenchmark(("decode/int8/" + size).c_str(), decode_int8, keys, plain)->UseRealTime();
    register_pages<float>("float", keys);
    register_pages<bf16>("bf16", keys);
    register_pages<std::int8_t>("int8", keys);
  }
  return true;
}();

}  // namespace
}  // namespace phasor::bench
