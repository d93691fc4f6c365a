// Memory of tensors and of scratch, aligned to cache lines. Large pieces lie in huge pages where the system has them:
// fewer addresses to translate, and what a core works on spreads evenly over its second-level cache.
#pragma once

#include <cstddef>

namespace phasor {

// Of any content. Throws std::bad_alloc.
void* allocate_memory(std::size_t bytes);
// `bytes` as it was allocated.
void free_memory(void* memory, std::size_t bytes) noexcept;

}  // namespace phasor
