// Threads. Results never depend on how many there are: work is cut into tasks by shape alone, each task
// writes memory of its own, and threads take tasks from one counter. The calling thread takes tasks too and waits only
// for those that others have begun, so it is never held up by a thread that the system does not run.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace phasor {

// How many threads a call may use. The default is OMP_NUM_THREADS, else the number of cores that the process may run
// on; set_num_threads(0) returns to it. A process that was forked after its parent had used threads has one.
int num_threads();
void set_num_threads(int count);

// For a process where another library computes with GNU OpenMP (libgomp.so.1), as torch does: from now on calls run on
// OpenMP's threads. These spin for some milliseconds after each region, on the cores that threads of ours would need.
// False, and nothing changes, if the process has not loaded it when this is first called.
bool share_openmp_threads();

// A reference to something callable as void(int64_t): what std::function is, without owning or allocating.
class TaskRef {
 public:
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, TaskRef>) TaskRef(Callable&& task)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(task)))),
        call_([](void* object, std::int64_t index) {
          (*static_cast<std::remove_reference_t<Callable>*>(object))(index);
        }) {}
  void operator()(std::int64_t index) const { call_(object_, index); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t);
};

// Calls task(0) .. task(count - 1), each once, in any order; returns when all are done. Tasks must not wait for each
// other: one thread may run them all. The first exception of a task is thrown again here, and tasks not yet begun are
// left out. Inside a task it runs on the calling thread.
void parallel_for(std::int64_t count, TaskRef task);

}  // namespace phasor
