// What the machine itself can give in the same run: the denominators of every percentage.
#include <benchmark/benchmark.h>

#include <cstring>

#include "phasor/core/parallel.h"
#include "phasor/core/tensor.h"

namespace phasor {
namespace {

// memcpy of 256 MiB, one call for each thread; counts bytes read and written.
void probe_copy(benchmark::State& state) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 20;
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

}  // namespace
}  // namespace phasor
