// Random numbers of one row of a dataset: a stream of Philox of its own, read in order.
#pragma once

#include <array>
#include <cstdint>

#include "phasor/core/random.h"
#include "phasor/training/dataset.h"

namespace phasor {

class Draw {
 public:
  // Attempts at the same row are independent.
  Draw(std::uint64_t seed, Split split, std::int64_t row, std::uint64_t attempt = 0)
      : stream_(seed, 2 * static_cast<std::uint64_t>(row) + (split == Split::validation ? 1 : 0)),
        next_block_(attempt << 32) {}

  // Uniform in 0 .. limit - 1. 64 random bits against limits below 2^40: no number is more likely by more than 2^-24.
  std::int64_t below(std::int64_t limit) {
    const std::uint64_t high = next(), low = next();
    return static_cast<std::int64_t>((high << 32 | low) % static_cast<std::uint64_t>(limit));
  }

 private:
  std::uint32_t next() {
    if (used_ == block_.size()) {
      block_ = stream_.block(next_block_++);
      used_ = 0;
    }
    return block_[used_++];
  }

  Philox stream_;
  std::uint64_t next_block_;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = 4;
};

}  // namespace phasor
