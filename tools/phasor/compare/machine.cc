#include "compare/machine.h"

#include <malloc.h>
#include <sys/resource.h>

#include <array>
#include <ctime>
#include <fstream>

#include "phasor/core/parallel.h"
#include "phasor/core/simd_target.h"

namespace phasor::tool {
namespace {

// The rest of the first line of a file that begins with `key`, without what separates them.
std::string value_of(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t:", key.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace

std::string machine_text() {
  const std::string cpu = value_of("/proc/cpuinfo", "model name");
  const int threads = num_threads();
  return (cpu.empty() ? "a CPU of unknown name" : cpu) + ", " + std::to_string(threads) +
         (threads == 1 ? " thread, " : " threads, ") + simd_target();
}

std::string today_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &local);
  return text.data();
}

void reset_peak_memory() {
  malloc_trim(0);                               // what an earlier training has freed is not this one's
  std::ofstream("/proc/self/clear_refs") << 5;  // proc(5): resets the peak of resident memory
}

std::int64_t peak_memory() {
  constexpr std::int64_t kKilobyte = 1024;
  const std::string kilobytes = value_of("/proc/self/status", "VmHWM");
  if (!kilobytes.empty()) return std::stoll(kilobytes) * kKilobyte;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * kKilobyte;
}

}  // namespace phasor::tool
