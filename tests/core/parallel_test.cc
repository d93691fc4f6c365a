#include "phasor/core/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
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

// A worker that wakes up late must find nothing of a call that has returned.
TEST_P(Parallel, ManySmallRegionsInARow) {
  for (std::int64_t region = 0; region < 5000; region++) {
    std::vector<std::int64_t> written(static_cast<std::size_t>(2 + region % 3));
    parallel_for(std::ssize(written), [&](std::int64_t i) { written[static_cast<std::size_t>(i)] = region + i; });
    for (std::int64_t i = 0; i < std::ssize(written); i++) ASSERT_EQ(written[static_cast<std::size_t>(i)], region + i);
  }
}

TEST_P(Parallel, AnExceptionEndsOnlyItsOwnRegion) {
  for (int repeat = 0; repeat < 200; repeat++) {
    EXPECT_ERROR(parallel_for(64, [](std::int64_t) { throw std::invalid_argument("every task"); }), "every task");
    std::atomic<int> calls{0};
    parallel_for(64, [&](std::int64_t) { calls++; });
    ASSERT_EQ(calls, 64);
  }
}

// More callers than there are regions for.
TEST_P(Parallel, ManyCallersAtOnce) {
  constexpr std::size_t kCallers = 12;
  std::vector<std::int64_t> sums(kCallers);
  std::vector<std::thread> callers;
  std::atomic<std::size_t> ready{0};
  for (std::size_t c = 0; c < kCallers; c++)
    callers.emplace_back([&ready, &sum = sums[c]] {
      for (ready++; ready < kCallers;) std::this_thread::yield();
      for (int repeat = 0; repeat < 50; repeat++) {
        std::vector<std::int64_t> squares(100);
        parallel_for(100, [&](std::int64_t i) { squares[static_cast<std::size_t>(i)] = i * i; });
        sum += std::accumulate(squares.begin(), squares.end(), std::int64_t{0});
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, 50 * 328350);
}

TEST_P(Parallel, TheNumberOfThreadsMayChangeMeanwhile) {
  std::atomic<int> changes{0};
  std::atomic<bool> done{false};
  std::thread other([&] {
    for (; !done; changes++) set_num_threads(changes % 7 + 1);
  });
  for (int repeat = 0; repeat < 500 || changes < 500; repeat++) {
    std::atomic<int> calls{0};
    parallel_for(40, [&](std::int64_t) { calls++; });
    EXPECT_EQ(calls, 40);
  }
  done = true;
  other.join();
}

// As many tasks as threads, each of which waits for all others to begin; on a thread that has not found yet that its
// workers cost more than they save.
TEST_P(Parallel, UsesAsManyThreadsAsAsked) {
  std::atomic<int> begun{0};
  std::thread([&] {
    parallel_for(GetParam(), [&](std::int64_t) {
      for (begun++; begun < GetParam();) std::this_thread::yield();
    });
  }).join();
  EXPECT_EQ(begun, GetParam());
}

// While one caller holds workers, another one has its tasks done.
TEST_P(Parallel, ACallerWaitsForNoWorkerThatDoesNotCome) {
  std::atomic<int> held{0};
  std::atomic<bool> released{false};
  std::thread holder([&] {
    parallel_for(GetParam(), [&](std::int64_t) {
      for (held++; !released;) std::this_thread::yield();
    });
  });
  while (held < GetParam()) std::this_thread::yield();
  std::atomic<int> calls{0};
  parallel_for(100, [&](std::int64_t) { calls++; });
  EXPECT_EQ(calls, 100);
  released = true;
  holder.join();
}

TEST_P(Parallel, UsesNoMoreThreadsThanAsked) {
  std::atomic<int> running{0}, most{0};
  parallel_for(200, [&](std::int64_t) {
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::yield();
    running--;
  });
  EXPECT_LE(most, GetParam());
}

// The child has none of the threads. A call there must neither wait for them nor give something else.
TEST_P(Parallel, AForkedProcessWorksAlone) {
  const auto sum = [] {
    std::vector<std::int64_t> squares(1000);
    parallel_for(1000, [&](std::int64_t i) { squares[static_cast<std::size_t>(i)] = i * i; });
    return std::accumulate(squares.begin(), squares.end(), std::int64_t{0});
  };
  const std::int64_t expected = sum();
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // ends it if it hangs
    const bool alone = GetParam() == 1 || num_threads() == 1;
    _exit(alone && sum() == expected ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "0x80 and more: an exit code; 14: it hung";
  EXPECT_EQ(num_threads(), GetParam());
  EXPECT_EQ(sum(), expected);
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
