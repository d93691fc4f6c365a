// Rotation of q as a model of 32 heads has it, (2, 32, 2048, 128), and the building of tables.
#include "phasor/position/rotary.h"

#include <benchmark/benchmark.h>

#include <string>

#include "phasor/position/rope.h"
#include "random_tensor.h"

namespace phasor::bench {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 32, kTokens = 2048, kChannels = 128;

RopeConfig config(Pairing pairing) { return {.head_dim = kChannels, .pairing = pairing}; }

enum class Memory { bhtd, bthd };

template <class T>
TensorView<T, 4> heads_first(Tensor<T, 4>& tensor, Memory memory) {
  return memory == Memory::bhtd ? tensor.view() : tensor.view().transposed(1, 2);
}

template <class T>
Tensor<T, 4> random_input(Memory memory) {
  return random_tensor<T, 4>(memory == Memory::bhtd ? Shape<4>{kBatch, kHeads, kTokens, kChannels}
                                                    : Shape<4>{kBatch, kTokens, kHeads, kChannels},
                             1);
}

template <class T>
void rotate_in_place(benchmark::State& state, Pairing pairing, Memory memory) {
  Tensor<T, 4> x = random_input<T>(memory);
  const Tensor<std::int64_t, 3> positions = consecutive_positions(kTokens);
  const AnyRotaryTable table = rotary_table(config(pairing), positions.view());
  for (auto _ : state) {
    apply_rotary(heads_first(x, memory), table);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * x.size() * static_cast<std::int64_t>(sizeof(T)));
}

template <class T>
void rotate_out_of_place(benchmark::State& state, Pairing pairing, Memory memory) {
  Tensor<T, 4> x = random_input<T>(memory), out(x.shape());
  const Tensor<std::int64_t, 3> positions = consecutive_positions(kTokens);
  const AnyRotaryTable table = rotary_table(config(pairing), positions.view());
  for (auto _ : state) {
    apply_rotary(TensorView<const T, 4>(heads_first(x, memory)), table, heads_first(out, memory));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * x.size() * static_cast<std::int64_t>(sizeof(T)));
}

void build_table(benchmark::State& state, std::int64_t tokens) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(tokens);
  for (auto _ : state) benchmark::DoNotOptimize(rotary_table(config(Pairing::half), positions.view()));
  state.SetItemsProcessed(state.iterations() * tokens * kChannels / 2);
}

template <class T>
void register_cases(const std::string& type) {
  for (const Pairing pairing : {Pairing::half, Pairing::adjacent})
    for (const Memory memory : {Memory::bhtd, Memory::bthd}) {
      const std::string name =
          type + "/" + std::string(pairing_name(pairing)) + (memory == Memory::bhtd ? "/BHTD" : "/BTHD");
      benchmark::RegisterBenchmark(("rotate/in_place/" + name).c_str(), rotate_in_place<T>, pairing, memory)
          ->UseRealTime();
      if (memory == Memory::bhtd)
        benchmark::RegisterBenchmark(("rotate/out_of_place/" + name).c_str(), rotate_out_of_place<T>, pairing, memory)
            ->UseRealTime();
    }
}

const bool registered = [] {
  register_cases<float>("float");
  register_cases<bf16>("bf16");
  register_cases<f16>("f16");
  benchmark::RegisterBenchmark("table/32768x64", build_table, 32768)->UseRealTime();
  return true;
}();

}  // namespace
}  // namespace phasor::bench
