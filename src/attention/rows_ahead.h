// Rows that will be read or written soon, asked for a few lines at a time while something else is computed: heads of a
// few hundred tokens are read once, and would wait for memory.
#pragma once

#include <algorithm>
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
    Run run{data + size * (b * x.strides[0] + h * x.strides[1] + first * x.strides[2]), size * x.strides[2],
            size * x.shape[3], count};
    if (run.stride == run.bytes) run.bytes *= run.rows, run.rows = 1;  // one long row
    runs_.at(added_++) = run;
  }

  // Asks for the next lines, into the second-level cache: the first is full of the tile. Some ten can be under way;
  // asking for more than that at once is waiting for them.
  void fetch(std::int64_t lines) {
    while (lines > 0 && run_ < added_) {
      const Run& run = runs_[run_];
      const std::int64_t now = std::min(lines, (run.bytes - byte_ + kLine - 1) / kLine);
      for (std::int64_t i = 0; i < now; i++) __builtin_prefetch(run.data + byte_ + i * kLine, 0, 2);
      lines -= now;
      byte_ += now * kLine;
      if (byte_ >= run.bytes) next_row();
    }
  }

 private:
  struct Run {
    const std::byte* data;
    std::int64_t stride, bytes, rows;
  };

  void next_row() {
    Run& run = runs_[run_];
    byte_ = 0;
    run.data += run.stride;
    if (--run.rows == 0) run_++;
  }

  static constexpr std::int64_t kLine = 64;
  std::array<Run, 6> runs_;
  std::size_t added_ = 0, run_ = 0;
  std::int64_t byte_ = 0;  // of its row
};

}  // namespace phasor::detail
