// Scratch memory of one thread, kept between calls: in the steady state nothing is allocated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "phasor/core/tensor.h"

namespace phasor::detail {

class Arena {
 public:
  // The arena of the calling thread, emptied: memory taken from it before is invalid.
  static Arena& begin() {
    thread_local Arena arena;
    arena.reset();
    return arena;
  }
  // A second arena, for memory that a call shares with its tasks, which use the first.
  static Arena& begin_shared() {
    thread_local Arena arena;
    arena.reset();
    return arena;
  }

  // `count` floats, aligned to 64 bytes, with undefined content. One cache line of padding follows, so that buffers
  // with a power-of-two size do not start at the same page offset.
  float* take(std::size_t count) {
    const std::size_t whole = (count + 15) / 16 * 16 + 16;
    if (used_ + whole > static_cast<std::size_t>(blocks_.back().size())) {
      blocks_.push_back(Block({static_cast<std::int64_t>(std::max(whole, kLeast))}));
      used_ = 0;
    }
    float* memory = blocks_.back().data() + used_;
    used_ += whole;
    return memory;
  }

 private:
  using Block = Tensor<float, 1>;
  static constexpr std::size_t kLeast = 1 << 16;

  // Blocks that were added are merged into one that is large enough for all.
  void reset() {
    used_ = 0;
    if (blocks_.size() == 1) return;
    std::int64_t total = kLeast;
    for (const Block& block : blocks_) total += block.size();
    blocks_.clear();
    blocks_.push_back(Block({total}));
  }

  std::vector<Block> blocks_;
  std::size_t used_ = 0;
};

}  // namespace phasor::detail
