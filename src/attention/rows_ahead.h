// Rows that will be read or written soon, asked for a few lines at a time while something else is computed: heads of a
// few hundred tokens are read once, and would wait for memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "call.h"

namespace phasor::detail {

class RowsAhead {
 public:
  // Rows first .. first + count - 1 of head h in batch b, after those added before; six times at most.
  template <class Byte>
  void add(const AnyTensor<Byte>& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) {
    if (!x || count <= 0) return;
    const std::int64_t size = x.type == ElementType::float32 ? 4 : 2;
    const auto* data = reinterpret_cast<const std::byte*>(x.data);
    runs_.at(added_++) = {data + size * (b * x.strides[0] + h * x.strides[1] + first * x.strides[2]),
                          size * x.strides[2], size * x.shape[3], count};
  }

  // Asks for the next lines, into the second-level cache: the first is full of the tile. Some ten can be under way;
  // asking for more than that at once is waiting for them.
  void fetch(std::size_t lines) {
    for (; lines > 0 && run_ < added_; lines--) {
      const Run& run = runs_[run_];
      __builtin_prefetch(run.data + row_ * run.stride + byte_, 0, 2);
      byte_ += 64;
      if (byte_ >= run.bytes) byte_ = 0, row_++;
      if (row_ == run.rows) row_ = 0, run_++;
    }
  }

 private:
  struct Run {
    const std::byte* data;
    std::int64_t stride, bytes, rows;
  };
  std::array<Run, 6> runs_;
  std::size_t added_ = 0, run_ = 0;
  std::int64_t row_ = 0, byte_ = 0;  // of the run
};

}  // namespace phasor::detail
