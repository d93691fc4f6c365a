// Memory of tensors and of scratch, aligned to cache lines. Large blocks are in huge pages where the system has them:
// fewer addresses to translate, and an even use of the second-level cache.
#pragma once

#include <cstddef>

namespace phasor {

// The content is undefined. Throws std::bad_alloc.
void* allocate_memory(std::size_t bytes);
// `bytes` as in the allocation.
void free_memory(void* memory, std::size_t bytes) noexcept;

}  // namespace phasor
