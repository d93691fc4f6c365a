// Runs all benchmarks interleaved, in random order and several times over, and prints each beside what the machine
// itself gives in the same run. Google Benchmark's flags work (--benchmark_filter='probe|forward',
// --benchmark_repetitions=5, --benchmark_out=file.json, ...).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "counting.h"
#include "phasor/core/parallel.h"
#include "phasor/core/simd_target.h"

namespace phasor::bench {
namespace {

// What a rate counts, and the case that shows what the machine gives of it.
struct Yardstick {
  const char* counter;
  const char* unit;
  const char* probe;
};
constexpr Yardstick kCopied{kBytesRate, "GB/s", "probe/copy"};
constexpr Yardstick kRead{kBytesRate, "GB/s", "probe/read"};
constexpr Yardstick kComputed{kOperationsRate, "GFLOP/s", "probe/fma"};

// All repetitions of a case.
struct Series {
  std::vector<double> seconds, rates, seconds_per_query;  // the latter two may be empty
  const Yardstick* yardstick = nullptr;                   // of the rates
  std::string plain;                                      // the case to compare with, if any
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0.0 : values[values.size() / 2];
}

double highest(const std::vector<double>& values) { return values.empty() ? 0.0 : std::ranges::max(values); }
double lowest(const std::vector<double>& values) { return values.empty() ? 0.0 : std::ranges::min(values); }

// Decoding reads its cache and writes next to nothing.
bool only_reads(const std::string& name) { return name.starts_with("decode") || name.starts_with("probe/read"); }

const Yardstick* yardstick_of(const std::string& name, const benchmark::UserCounters& counters) {
  if (counters.contains(kOperationsRate)) return &kComputed;
  if (counters.contains(kBytesRate)) return only_reads(name) ? &kRead : &kCopied;
  return nullptr;
}

// Gathers the repetitions; prints when all is done.
class RatioReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override {
    std::printf("SIMD target %s, %d threads. The table comes when all is done.\n", simd_target().c_str(),
                num_threads());
    std::fflush(stdout);
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs)
      if (run.run_type == Run::RT_Iteration && !run.error_occurred) add(run);
  }

  void Finalize() override {
    print_header();
    for (const auto& [index, name] : order_) {
      const Series& series = series_.at(name);
      std::printf("%-51s %9.3f %9.3f", name.c_str(), 1e3 * median(series.seconds), 1e3 * lowest(series.seconds));
      print_rate(series);
      print_beside_plain(series);
      if (!series.seconds_per_query.empty()) std::printf("  %.2f us/query", 1e6 * median(series.seconds_per_query));
      std::printf("\n");
    }
  }

 private:
  void add(const Run& run) {
    const std::string& name = run.run_name.function_name;
    order_[run.family_index] = name;
    Series& series = series_[name];
    series.seconds.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
    series.plain = run.report_label;
    series.yardstick = yardstick_of(name, run.counters);
    if (series.yardstick != nullptr) series.rates.push_back(run.counters.at(series.yardstick->counter));
    const auto query = run.counters.find(kSecondsPerQuery);
    if (query != run.counters.end()) series.seconds_per_query.push_back(query->second);
  }

  static void print_header() {
    std::printf("\n%-51s %9s %9s %9s %9s %-7s %7s %7s %-10s %8s %7s\n", "case", "ms median", "best", "rate med.",
                "best", "", "median", "best", "of", "to plain", "best");
  }

  // The rate, and the percentage of the probe's: median against median, best against best.
  void print_rate(const Series& series) const {
    if (series.rates.empty()) return;
    std::printf(" %9.1f %9.1f %-7s", median(series.rates) / 1e9, highest(series.rates) / 1e9, series.yardstick->unit);
    const auto probe = series_.find(series.yardstick->probe);
    if (probe == series_.end()) return;
    std::printf(" %6.0f%% %6.0f%% %-10s", 100.0 * median(series.rates) / median(probe->second.rates),
                100.0 * highest(series.rates) / highest(probe->second.rates), series.yardstick->probe);
  }

  // Time as a multiple of the plain case's.
  void print_beside_plain(const Series& series) const {
    const auto plain = series_.find(series.plain);
    if (plain == series_.end()) return;
    std::printf(" %8.3f %7.3f", median(series.seconds) / median(plain->second.seconds),
                lowest(series.seconds) / lowest(plain->second.seconds));
  }

  std::map<std::string, Series> series_;       // by name
  std::map<std::int64_t, std::string> order_;  // as they were registered
};

}  // namespace
}  // namespace phasor::bench

int main(int argc, char** argv) {
  std::vector<std::string> defaults{argv[0], "--benchmark_repetitions=11", "--benchmark_min_time=0.05",
                                    "--benchmark_enable_random_interleaving=true"};
  std::vector<char*> arguments;  // the user's come last and win
  for (std::string& argument : defaults) arguments.push_back(argument.data());
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  phasor::bench::RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
}
