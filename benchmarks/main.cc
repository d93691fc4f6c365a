// Runs all benchmarks interleaved, in random order and several times over, and prints each beside what the machine
// itself gives in the same run. Google Benchmark's flags work (--benchmark_filter=rotate, --benchmark_out=file.json,
// ...).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "phasor/core/parallel.h"
#include "phasor/core/simd_target.h"

namespace phasor {
namespace {

struct Series {
  std::vector<double> seconds, rates;  // of each repetition; rate: bytes per second, 0 when not counted
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0.0 : values[values.size() / 2];
}

double best(const std::vector<double>& values) { return values.empty() ? 0.0 : std::ranges::max(values); }

// Gathers the repetitions; prints when all is done.
class RatioReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override {
    std::printf("SIMD target %s, %d threads\n", simd_target().c_str(), num_threads());
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      const std::string name = run.run_name.function_name;
      if (!series_.contains(name)) order_.push_back(name);
      Series& series = series_[name];
      series.seconds.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
      const auto rate = run.counters.find("bytes_per_second");
      if (rate != run.counters.end()) series.rates.push_back(rate->second);
    }
  }

  void Finalize() override {
    std::ranges::sort(order_);
    const Series& copy = series_["probe/copy"];
    std::printf("\n%-40s %9s %9s %9s %9s %9s\n", "case", "ms median", "GB/s med.", "GB/s best", "% of copy", "best");
    for (const std::string& name : order_) {
      const Series& series = series_[name];
      std::printf("%-40s %9.3f", name.c_str(), 1e3 * median(series.seconds));
      if (!series.rates.empty()) std::printf(" %9.1f %9.1f", median(series.rates) / 1e9, best(series.rates) / 1e9);
      if (!series.rates.empty() && !copy.rates.empty())
        std::printf(" %8.0f%% %8.0f%%", 100.0 * median(series.rates) / median(copy.rates),
                    100.0 * best(series.rates) / best(copy.rates));
      std::printf("\n");
    }
  }

 private:
  std::map<std::string, Series> series_;
  std::vector<std::string> order_;
};

}  // namespace
}  // namespace phasor

int main(int argc, char** argv) {
  std::vector<std::string> defaults{argv[0], "--benchmark_repetitions=11", "--benchmark_min_time=0.05",
                                    "--benchmark_enable_random_interleaving=true"};
  std::vector<char*> arguments;  // the user's come last and win
  for (std::string& argument : defaults) arguments.push_back(argument.data());
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  phasor::RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
}
