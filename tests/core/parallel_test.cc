#include "phasor/core/parallel.h"

#include <atomic>
#include <thread>
#include <vector>

#include "support/expect_error.h"

namespace phasor {
namespace {

class Parallel : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_num_threads(GetParam()); }
  void TearDown() override { set_num_threads(0); }
};

TEST_P(Parallel, CallsEachTaskOnce) {
  for (const std::int64_t count : {0, 1, 2, 17, 987}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
    parallel_for(count, [&](std::int64_t i) { calls[static_cast<std::size_t>(i)]++; });
    for (const auto& number : calls) EXPECT_EQ(number, 1);
  }
}

TEST_P(Parallel, ThrowsWhatATaskThrew) {
  EXPECT_ERROR(parallel_for(100,
                            [](std::int64_t i) {
                              if (i == 37) throw std::invalid_argument("task 37");
                            }),
               "task 37");
}

TEST_P(Parallel, NestedCallsRunOnTheSameThread) {
  std::atomic<int> calls{0};
  parallel_for(4, [&](std::int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    parallel_for(5, [&](std::int64_t) { calls += std::this_thread::get_id() == outer; });
  });
  EXPECT_EQ(calls, 20);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values(1, 2, 3, 5));

TEST(NumThreads, IsSettable) {
  set_num_threads(3);
  EXPECT_EQ(num_threads(), 3);
  set_num_threads(0);
  EXPECT_GE(num_threads(), 1);
  EXPECT_ERROR(set_num_threads(-1), "[set_num_threads]", "count: -1", "expected 1 to 4096");
}

}  // namespace
}  // namespace phasor
