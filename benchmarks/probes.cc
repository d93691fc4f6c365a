// What the machine itself can give in the same run: the denominators of every percentage.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "counting.h"
#include "phasor/core/parallel.h"
#include "phasor/core/tensor.h"
#include "probe_kernels.h"

namespace phasor::bench {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// memcpy of 256 MiB, one call for each thread; counts bytes read and written.
void probe_copy(benchmark::State& state) {
  constexpr std::int64_t kBytes = 256 * kMiB;
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
BENCHMARK(probe_copy)->Name("probe/copy")->UseRealTime();

// The sum of so many MiB of floats, a part for each thread. 256 MiB come from memory; 32 MiB fit the last-level cache
// of servers.
void probe_read(benchmark::State& state, std::int64_t mebibytes) {
  const Tensor<float, 1> values({mebibytes * kMiB / 4});
  const std::int64_t threads = num_threads(), part = values.size() / threads;
  for (auto _ : state)
    parallel_for(threads, [&](std::int64_t i) {
      benchmark::DoNotOptimize(sum({values.data() + i * part, static_cast<std::size_t>(part)}));
    });
  state.SetBytesProcessed(state.iterations() * 4 * part * threads);
}
BENCHMARK_CAPTURE(probe_read, 256, 256)->Name("probe/read")->UseRealTime();
BENCHMARK_CAPTURE(probe_read, 32, 32)->Name("probe/read_32MiB")->UseRealTime();

// All threads; several tasks for each, so that one thread held up by other programs does not hold up the rest.
void probe_fma(benchmark::State& state) {
  constexpr std::int64_t kSteps = 1 << 15;
  const std::int64_t tasks = 8 * num_threads();
  std::vector<double> operations(static_cast<std::size_t>(tasks));
  for (auto _ : state)
    parallel_for(tasks, [&](std::int64_t i) {
      float result = 0.5f;
      operations[static_cast<std::size_t>(i)] = busy_fma(kSteps, result);
      benchmark::DoNotOptimize(result);
    });
  count_operations(state, static_cast<double>(tasks) * operations.front());
}
BENCHMARK(probe_fma)->Name("probe/fma")->UseRealTime();

}  // namespace
}  // namespace phasor::bench
