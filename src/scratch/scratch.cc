#include "scratch/scratch.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <vector>

#include "phasor/core/memory.h"

namespace phasor::detail {
namespace {

constexpr std::size_t kMostBlocks = 64, kMostFloats = std::size_t{1} << 26;  // 256 MiB

struct Block {
  float* memory;
  std::size_t floats;
};

void release(const Block& block) { free_memory(block.memory, block.floats * sizeof(float)); }

struct Kept {
  std::vector<Block> blocks;
  std::size_t floats = 0;

  Kept() { blocks.reserve(kMostBlocks); }
  ~Kept() { std::ranges::for_each(blocks, release); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
};

Kept& kept() {
  thread_local Kept memory;
  return memory;
}

// Sizes in steps of an eighth: a block also serves calls that are a little shorter or longer.
std::size_t rounded_up(std::size_t floats) {
  const std::size_t step = std::max<std::size_t>(16, std::bit_floor(floats) / 8);
  return (floats + step - 1) / step * step;
}

}  // namespace

// Calls request the same sizes again and again: only blocks of equal size fit.
float* take_memory(std::size_t floats) {
  floats = rounded_up(floats);
  Kept& mine = kept();
  // The block that was used last, since it is most likely in a cache.
  const auto last = std::find_if(mine.blocks.rbegin(), mine.blocks.rend(),
                                 [&](const Block& block) { return block.floats == floats; });
  if (last == mine.blocks.rend()) return static_cast<float*>(allocate_memory(floats * sizeof(float)));
  const auto found = std::prev(last.base());
  float* memory = found->memory;
  mine.floats -= floats;
  mine.blocks.erase(found);
  return memory;
}

// The least recently used blocks are freed.
void give_back_memory(float* memory, std::size_t floats) noexcept {
  floats = rounded_up(floats);
  if (floats > kMostFloats) return release({memory, floats});
  Kept& mine = kept();
  while (mine.blocks.size() >= kMostBlocks || mine.floats + floats > kMostFloats) {
    mine.floats -= mine.blocks.front().floats;
    release(mine.blocks.front());
    mine.blocks.erase(mine.blocks.begin());
  }
  mine.blocks.push_back({memory, floats});
  mine.floats += floats;
}

namespace {

// What an arena of this thread took in all, when it last needed more than one block: the next one begins with as much.
std::size_t& floats_of_an_arena() {
  thread_local std::size_t floats = std::size_t{1} << 16;
  return floats;
}

}  // namespace

// Each block is at least as large as all before it, so 32 are more than memory can hold.
void Arena::add_block(std::size_t least) {
  std::size_t floats = count_ == 0 ? floats_of_an_arena() : 0;
  for (std::size_t i = 0; i < count_; i++) floats += blocks_[i].floats;
  floats = std::max(floats, least);
  next_ = take_memory(floats);
  left_ = floats;
  blocks_[count_++] = {next_, floats};
}

Arena::~Arena() {
  std::size_t floats = 0;
  for (std::size_t i = 0; i < count_; i++) {
    floats += blocks_[i].floats;
    give_back_memory(blocks_[i].memory, blocks_[i].floats);
  }
  if (count_ > 1) floats_of_an_arena() = floats;
}

}  // namespace phasor::detail
