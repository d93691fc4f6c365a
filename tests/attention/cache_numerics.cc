// Prints the table of docs/numerics.md: how far attention to a cache is from attention to the keys and values that were
// stored in it, where a few channels of the keys are much larger than the others.
#include <cmath>
#include <cstdio>
#include <vector>

#include "attention/tensors.h"
#include "phasor/attention/kv_cache.h"
#include "reference/attention.h"

namespace phasor {
namespace {

constexpr std::int64_t kHeads = 64, kKeys = 4096, kWidth = 128, kLargeChannels = 4;

// Channel c of all keys divided by factors[c], and of all queries multiplied by it: the same scores.
Tensors divided(const Tensors& t, const std::vector<float>& factors) {
  Tensors result = t;
  for (std::int64_t i = 0; i < t.k.size(); i++) result.k.data()[i] /= factors[static_cast<std::size_t>(i % kWidth)];
  for (std::int64_t i = 0; i < t.q.size(); i++) result.q.data()[i] *= factors[static_cast<std::size_t>(i % kWidth)];
  return result;
}

// The largest number of each channel.
std::vector<float> largest(const Tensors& t) {
  std::vector<float> result(kWidth, 0.0f);
  for (std::int64_t i = 0; i < t.k.size(); i++) {
    float& of_channel = result[static_cast<std::size_t>(i % kWidth)];
    of_channel = std::max(of_channel, std::fabs(t.k.data()[i]));
  }
  return result;
}

// Root mean square of the error, as a part of that of the result.
double error(const Tensors& t, CacheStorage storage, const reference::Array<double, 4>& exact) {
  KvCache cache({.capacity = kKeys, .channels = kWidth, .storage = storage});
  cache.append(t.k.view(), t.v.view());
  Tensor<float, 4> out(t.out.shape());
  attention_forward(t.q.view(), cache, {.out = out.view()});
  double errors = 0, sizes = 0;
  for (std::size_t i = 0; i < exact.values.size(); i++) {
    errors += std::pow(static_cast<double>(out.data()[i]) - exact.values[i], 2);
    sizes += std::pow(exact.values[i], 2);
  }
  return std::sqrt(errors / sizes);
}

void print_row(float offset) {
  Tensors t({.heads = kHeads, .keys = kKeys, .width = kWidth, .value_width = kWidth});
  for (float& x : t.q) x *= 1.5f;
  for (std::int64_t j = 0; j < kKeys; j++)
    for (std::int64_t c = 0; c < kLargeChannels; c++) t.k(0, 0, j, c) += offset;
  const auto exact = reference::forward(reference::problem<double, float>(t.q.view(), t.k.view(), t.v.view(), {})).out;
  std::printf("| %g |", static_cast<double>(offset));
  for (const CacheStorage storage : {CacheStorage::f16, CacheStorage::bf16, CacheStorage::int8})
    std::printf(" %.1e |", error(t, storage, exact));
  std::printf(" %.1e |\n", error(divided(t, largest(t)), CacheStorage::int8, exact));
}

}  // namespace
}  // namespace phasor

int main() {
  for (const float offset : {0.0f, 5.0f, 10.0f, 20.0f, 40.0f}) phasor::print_row(offset);
}
