#include "phasor/core/memory.h"

#include <sys/mman.h>

#include <new>

namespace phasor {
namespace {

constexpr std::size_t kLine = 64, kHugePage = std::size_t{1} << 21;

std::align_val_t alignment_of(std::size_t bytes) { return std::align_val_t{bytes < kHugePage ? kLine : kHugePage}; }

}  // namespace

void* allocate_memory(std::size_t bytes) {
  void* memory = ::operator new(bytes, alignment_of(bytes));
#ifdef MADV_HUGEPAGE
  // A wish: a system that has none left, or is set to give none, gives small pages. The last, partly used one is left
  // out, so that memory in use is what was asked for.
  if (bytes >= kHugePage) (void)madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

void free_memory(void* memory, std::size_t bytes) noexcept { ::operator delete(memory, alignment_of(bytes)); }

}  // namespace phasor
