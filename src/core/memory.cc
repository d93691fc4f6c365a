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
  // A hint: without free huge pages, or with huge pages disabled, the system uses small ones. The last, partly used
  // page is not requested, so that memory use equals the size.
  if (bytes >= kHugePage) (void)madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

void free_memory(void* memory, std::size_t bytes) noexcept { ::operator delete(memory, alignment_of(bytes)); }

}  // namespace phasor
