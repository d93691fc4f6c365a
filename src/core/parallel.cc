#include "phasor/core/parallel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "phasor/core/check.h"

namespace phasor {
namespace {

using std::chrono::microseconds, std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kMostThreads = 4096;

// ---- how many threads ----

std::atomic<int> requested_threads{0};  // 0: the default
std::atomic<bool> forked{false};        // this process was forked from one whose workers it does not have

// OMP_NUM_THREADS, as OpenMP programs read it ("4", or "4,2" where the first counts), else the cores that this process
// may run on.
int default_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  int count = 0;
  if (text) std::from_chars(text, text + std::strlen(text), count);
  if (count > 0) return std::min(count, kMostThreads);
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// ---- waiting ----

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when the value is no longer `old`. It spins for less time than it takes to fall asleep and be woken a few
// times, so that threads stay awake from one region to the next; then it yields and sleeps (both in std::atomic::wait),
// so that a thread that others wait for gets this one's core.
void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  constexpr auto kSpin = microseconds(50);
  const Clock::time_point end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; i++) {
      if (value.load(std::memory_order_acquire) != old) return;
      relax();
    }
  } while (Clock::now() < end);
  value.wait(old, std::memory_order_acquire);
}

// ---- regions ----

thread_local bool in_region = false;  // then calls run on their own thread

// The tasks of one call of parallel_for, in the memory of its caller.
class Tasks {
 public:
  Tasks(std::int64_t count, const TaskRef& task) : task_(task), count_(count) {}

  std::int64_t count() const { return count_; }

  // Runs tasks until none is left; gives how many.
  std::int64_t run() noexcept {
    std::int64_t done = 0;
    in_region = true;
    try {
      for (std::int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_; done++) task_(i);
    } catch (...) {
      next_.store(count_, std::memory_order_relaxed);
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
    in_region = false;
    return done;
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const TaskRef task_;
  const std::int64_t count_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
};

// A place where workers meet a caller. The caller waits only for those that have entered: one that does not wake up in
// time finds the door closed. The door is one number: whether a caller has the region, how many workers are inside, and
// how many more may enter.
class alignas(64) Region {
 public:
  // Whether the calling thread has it from now on.
  bool take() {
    std::uint32_t free = 0;
    return door_.load(std::memory_order_relaxed) == 0 &&
           door_.compare_exchange_strong(free, kTaken, std::memory_order_acquire);
  }
  void open(Tasks& tasks, int workers) {
    tasks_ = &tasks;
    door_.store(kTaken + static_cast<std::uint32_t>(workers) * kPlace, std::memory_order_release);
  }
  // When all tasks have begun: returns when all are done, and gives the region back.
  void close() {
    std::uint32_t door = door_.fetch_and(kPlace - 1, std::memory_order_acq_rel) & (kPlace - 1);
    while (door != kTaken) {
      await_change(door_, door);
      door = door_.load(std::memory_order_acquire);
    }
    door_.store(0, std::memory_order_release);
  }

  // A worker helps if it may enter. Who leaves closes the door, since no task is left.
  bool help() {
    std::uint32_t door = door_.load(std::memory_order_relaxed);
    do {
      if (door < kPlace) return false;
    } while (!door_.compare_exchange_weak(door, door - kPlace + kInside, std::memory_order_acquire));
    tasks_->run();
    door_.fetch_and(kPlace - 1, std::memory_order_relaxed);
    if (door_.fetch_sub(kInside) == kTaken + kInside) door_.notify_one();
    return true;
  }
  void reset() { door_.store(0); }

 private:
  static constexpr std::uint32_t kTaken = 1, kInside = 2, kPlace = std::uint32_t{1} << 16;
  static_assert(kMostThreads * kInside < kPlace);

  std::atomic<std::uint32_t> door_{0};
  Tasks* tasks_ = nullptr;
};

// ---- workers ----

// Callers of other threads have regions of their own; when there are more of them, the others work alone.
constinit std::array<Region, 8> regions;
constinit std::atomic<std::uint32_t> opened{0};  // regions so far: workers wait for it to change

// Workers are never joined: they sleep until the process ends, and own nothing but scratch memory.
constinit std::mutex starting;
constinit std::atomic<int> workers{0};

void work() {
  for (;;) {
    const std::uint32_t seen = opened.load(std::memory_order_acquire);
    if (!std::ranges::any_of(regions, &Region::help)) await_change(opened, seen);
  }
}

// The child has one thread. What its copy of the workers was doing is forgotten, and it works alone: waking threads
// that are not there would wait for ever, and starting others in a forked process is not safe.
void after_fork_in_child() {
  forked = true;
  for (Region& region : regions) region.reset();
}

void watch_forks() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

// As many as the system gives.
void start_workers(int count) {
  if (workers.load(std::memory_order_acquire) >= count) return;
  const std::lock_guard lock(starting);
  watch_forks();
  try {
    for (; workers < count; workers++) std::thread(work).detach();
  } catch (const std::system_error&) {
  }
}

void wake_workers(int count) {
  opened.fetch_add(1);
  if (count >= workers.load(std::memory_order_relaxed)) return opened.notify_all();
  for (int i = 0; i < count; i++) opened.notify_one();
}

// What workers are worth to a calling thread. Where other processes use the cores, a worker may be put aside in the
// middle of a task, for longer than thousands of tasks take, or push another process onto the caller's core. So each
// region is compared with what the caller would have taken alone, judged by the processor time of its own tasks. When
// workers have cost more than they saved, the thread works alone for a while, then tries again.
class Worth {
 public:
  bool wanted(Clock::time_point now) const { return now >= alone_until_; }

  // The region ended at `now` and took so long; `own` of all tasks took the caller so much processor time.
  void add(Clock::time_point now, Seconds wall, Seconds processor, std::int64_t own, std::int64_t all) {
    // Tasks of others count less: together threads are slower, since they share the memory's bandwidth.
    constexpr double kTaskOfOthers = 0.6;
    const Seconds alone = processor * (1.0 + kTaskOfOthers * static_cast<double>(all - own) / static_cast<double>(own));
    saved_ = std::min(saved_ + alone - wall, kMostSaved);
    if (saved_ > -kMostLost) return;
    saved_ = Seconds(0);
    const bool was_busy = now - alone_until_ < kLongestPause;  // also when it last tried
    pause_ = was_busy ? std::min(2 * pause_, kLongestPause) : kShortestPause;
    alone_until_ = now + pause_;
  }

 private:
  // A scheduler's time slice is some milliseconds. A thread that has saved much is not sent to work alone by a few of
  // them, which any machine has now and then.
  static constexpr Seconds kMostSaved = milliseconds(20), kMostLost = milliseconds(1);
  static constexpr milliseconds kShortestPause{10}, kLongestPause{300};

  Clock::time_point alone_until_{};
  milliseconds pause_ = kShortestPause;
  Seconds saved_{0};
};
thread_local Worth worth;

// Of the calling thread.
Seconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return Seconds(static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

// On the calling thread and as many workers as come.
void run_on_workers(Tasks& tasks, int most) {
  const Clock::time_point begin = Clock::now();
  const auto region = worth.wanted(begin) ? std::ranges::find_if(regions, &Region::take) : regions.end();
  if (region == regions.end()) {
    tasks.run();
    return;
  }
  const Seconds processor_begin = processor_time();
  start_workers(most);
  region->open(tasks, most);
  wake_workers(most);
  const std::int64_t own = tasks.run();
  const Seconds processor = processor_time() - processor_begin;
  region->close();
  const Clock::time_point end = Clock::now();
  if (own > 0) worth.add(end, end - begin, processor, own, tasks.count());
}

// ---- threads of OpenMP ----

// What GCC compiles `#pragma omp parallel` to: body(data) on so many threads, the calling one among them; it returns
// when all have.
using OpenMpParallel = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
constinit std::atomic<OpenMpParallel> openmp_parallel{nullptr};  // none: our own workers

}  // namespace

bool share_openmp_threads() {
  static const bool shared = [] {
    void* library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void* function = library ? dlsym(library, "GOMP_parallel") : nullptr;
    if (function == nullptr) return false;
    watch_forks();
    openmp_parallel = reinterpret_cast<OpenMpParallel>(function);
    return true;
  }();
  return shared;
}

int num_threads() {
  if (forked.load(std::memory_order_relaxed)) return 1;
  static const int otherwise = default_threads();
  const int requested = requested_threads.load(std::memory_order_relaxed);
  return requested > 0 ? requested : otherwise;
}

void set_num_threads(int count) {
  PHASOR_CHECK(count >= 0 && count <= kMostThreads, "set_num_threads", "count: ", count, ", expected 1 to ",
               kMostThreads, ", or 0 for the default");
  requested_threads.store(count, std::memory_order_relaxed);
}

void parallel_for(std::int64_t count, TaskRef task) {
  const auto threads = static_cast<int>(std::min<std::int64_t>(num_threads(), count));
  if (threads <= 1 || in_region) {
    for (std::int64_t i = 0; i < count; i++) task(i);
    return;
  }
  Tasks tasks(count, task);
  const OpenMpParallel parallel = openmp_parallel.load(std::memory_order_relaxed);
  if (parallel)
    parallel([](void* data) { static_cast<Tasks*>(data)->run(); }, &tasks, static_cast<unsigned>(threads), 0);
  else
    run_on_workers(tasks, threads - 1);
  tasks.rethrow();
}

}  // namespace phasor
