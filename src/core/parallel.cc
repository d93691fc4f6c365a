#include "phasor/core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "phasor/core/check.h"

namespace phasor {
namespace {

std::atomic<int> requested_threads{0};  // 0: as OpenMP says

}  // namespace

int num_threads() {
  const int requested = requested_threads.load(std::memory_order_relaxed);
  return requested > 0 ? requested : std::max(1, omp_get_max_threads());
}

void set_num_threads(int count) {
  PHASOR_CHECK(count >= 0 && count <= 4096, "set_num_threads", "count: ", count,
               ", expected 1 to 4096, or 0 for OpenMP's default");
  requested_threads.store(count, std::memory_order_relaxed);
}

void parallel_for(std::int64_t count, TaskRef task) {
  const auto threads = static_cast<int>(std::min<std::int64_t>(num_threads(), count));
  if (threads <= 1 || omp_in_parallel()) {
    for (std::int64_t i = 0; i < count; i++) task(i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr first_failure;
#pragma omp parallel num_threads(threads) default(shared)
  {
    try {
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) task(i);
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      if (!failed.exchange(true)) first_failure = std::current_exception();
    }
  }
  if (first_failure) std::rethrow_exception(first_failure);
}

}  // namespace phasor
