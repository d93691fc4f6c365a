#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "phasor/core/memory.h"
#include "phasor/core/tensor.h"

namespace phasor {
namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;

bool is_aligned(const void* memory, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(memory) % alignment == 0;
}

TEST(Memory, SmallPiecesBeginWithALine) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, std::size_t{4097}, kHugePage - 1}) {
    void* memory = allocate_memory(bytes);
    EXPECT_TRUE(is_aligned(memory, 64)) << bytes;
    std::memset(memory, 1, bytes);
    free_memory(memory, bytes);
  }
}

TEST(Memory, LargePiecesBeginWithAHugePage) {
  for (const std::size_t bytes : {kHugePage, kHugePage + 1, 5 * kHugePage - 7}) {
    void* memory = allocate_memory(bytes);
    EXPECT_TRUE(is_aligned(memory, kHugePage)) << bytes;
    std::memset(memory, 1, bytes);
    free_memory(memory, bytes);
  }
}

// The memory moves with the size it was allocated with: the sanitizers see a mismatch.
TEST(Memory, LargeTensorsMoveAndAreCopied) {
  Tensor<float, 1> large({1 << 20}), small({3});
  large(5) = 2.0f;
  Tensor<float, 1> copy = large;
  small = std::move(large);
  EXPECT_EQ(small(5), 2.0f);
  EXPECT_EQ(copy(5), 2.0f);
  copy = Tensor<float, 1>({2});
  EXPECT_EQ(copy.size(), 2);
}

}  // namespace
}  // namespace phasor
