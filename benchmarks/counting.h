// What a case tells the reporter (main.cc) besides its time.
#pragma once

#include <benchmark/benchmark.h>

#include <string>

namespace phasor::bench {

// Counters; bytes_per_second is Google Benchmark's own, from SetBytesProcessed.
constexpr const char* kBytesRate = "bytes_per_second";
constexpr const char* kOperationsRate = "flop_per_second";
constexpr const char* kSecondsPerQuery = "seconds_per_query";

// Floating-point operations of one iteration, two for each multiply-add.
inline void count_operations(benchmark::State& state, double operations) {
  state.counters[kOperationsRate] =
      benchmark::Counter(operations * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// Queries of one iteration: time for each shows whether time grows linearly with the length.
inline void count_queries(benchmark::State& state, double queries) {
  state.counters[kSecondsPerQuery] = benchmark::Counter(
      queries * static_cast<double>(state.iterations()),
      static_cast<benchmark::Counter::Flags>(benchmark::Counter::kIsRate | benchmark::Counter::kInvert));
}

// The name of the case that this one's time is shown beside: the same work without a feature.
inline void compare_with(benchmark::State& state, const std::string& plain) { state.SetLabel(plain); }

}  // namespace phasor::bench
