// What the machine itself can give in the same run: the denominators of every percentage.
#include <benchmark/benchmark.h>

#include <cstring>

#include "phasor/core/parallel.h"
#include "phasor/core/tensor.h"

namespace phasor {
namespace {

constexpr std::int64_t kBytes = std::int64_t{256} << 20;
constexpr std::int64_t kChunk = std::int64_t{1} << 20;

// memcpy of 256 MiB by all threads, in chunks of 1 MiB; counts bytes read and written.
void probe_copy(benchmark::State& state) {
  const Tensor<char, 1> from({kBytes});
  Tensor<char, 1> to({kBytes});
  for (auto _ : state) {
    parallel_for(kBytes / kChunk,
                 [&](std::int64_t i) { std::memcpy(to.data() + i * kChunk, from.data() + i * kChunk, kChunk); });
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * kBytes);
}
BENCHMARK(probe_copy)->Name("probe/copy")->UseRealTime()->Unit(benchmark::kMillisecond);

// The same with one call for each thread, as large as it gets.
void probe_copy_whole(benchmark::State& state) {
  const Tensor<char, 1> from({kBytes});
  Tensor<char, 1> to({kBytes});
  const std::int64_t threads = num_threads(), part = kBytes / threads;
  for (auto _ : state) {
    parallel_for(threads, [&](std::int64_t i) {
      std::memcpy(to.data() + i * part, from.data() + i * part, static_cast<std::size_t>(part));
    });
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * part * threads);
}
BENCHMARK(probe_copy_whole)->Name("probe/copy_whole")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace phasor
