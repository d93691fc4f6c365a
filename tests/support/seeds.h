// Seeds of random cases. `make test` runs a window of them that moves on every day, sanitizers a smaller one, and
// `make test-all` (PHASOR_NIGHT=1) all of them.
//
//   PHASOR_SEED_START=417 [PHASOR_SEED_COUNT=10]   runs these instead, whatever the set is
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>  // program_invocation_name
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/sanitized.h"

namespace phasor {

// The seeds that tests run today, of `count` seeds from `first` on.
inline std::vector<std::uint32_t> seed_window(std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint32_t> window;
  const auto given = [](const char* name) { return std::getenv(name) != nullptr ? std::getenv(name) : ""; };
  const auto number = [](const std::string& text) { return static_cast<std::uint32_t>(std::stoul(text)); };
  if (const std::string start = given("PHASOR_SEED_START"), size = given("PHASOR_SEED_COUNT"); !start.empty()) {
    for (std::uint32_t i = 0; i < (size.empty() ? 1 : number(size)); i++) window.push_back(number(start) + i);
    return window;
  }
  std::uint64_t size = count, day = 0;
  if (std::string(given("PHASOR_NIGHT")) != "1") {
    size = std::max(1u, count / (kSanitized ? 16 : 4));
    using Days = std::chrono::duration<std::uint64_t, std::ratio<86400>>;
    day = std::chrono::duration_cast<Days>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  for (std::uint64_t i = 0; i < size; i++)
    window.push_back(first + static_cast<std::uint32_t>((day * size + i) % count));
  return window;
}

struct SeedSet {
  std::uint32_t first = 0, count = 0;   // all of them
  std::uint32_t shard = 0, shards = 1;  // which part of the window a test case runs
};

// The seeds that this test case runs; it prints them.
inline std::vector<std::uint32_t> seeds(const SeedSet& all) {
  const std::vector<std::uint32_t> window = seed_window(all.first, all.count);
  const auto at = [&](std::size_t shard) {
    return window.begin() + static_cast<std::ptrdiff_t>(window.size() * shard / all.shards);
  };
  const std::vector<std::uint32_t> part(at(all.shard), at(all.shard + 1));
  if (!part.empty()) std::printf("%zu seeds, %u to %u\n", part.size(), part.front(), part.back());
  return part;
}

// For SCOPED_TRACE: which seed failed, and how to run it alone.
inline std::string repeat_seed(std::uint32_t seed) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test.test_suite_name()) + '.' + test.name();
  if (test.value_param() != nullptr) name = name.substr(0, name.rfind('/')) + "/*";
  return "seed " + std::to_string(seed) + "; to repeat: PHASOR_SEED_START=" + std::to_string(seed) + ' ' +
         program_invocation_name + " --gtest_filter='" + name + "'";
}

}  // namespace phasor
