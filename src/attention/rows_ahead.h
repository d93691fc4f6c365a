// Rows that will be read or written soon, prefetched a few lines at a time during other computations: heads of a few
// hundred tokens are read once, and would wait for memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "call.h"

namespace phasor::detail {

constexpr std::int64_t kLine = 64;  // of a cache

// Rows by address; all sizes in bytes. Rows without a gap are one long row.
struct RowsInMemory {
  const std::byte* data = nullptr;
  std::int64_t stride = 0, bytes = 0, rows = 0;

  RowsInMemory() = default;
  // A run of rows, as AnyTensor::for_runs gives it.
  template <class Byte>
  RowsInMemory(const AnyTensor<Byte>& x, std::int64_t offset, std::int64_t count)
      : data(reinterpret_cast<const std::byte*>(x.data) + x.element_size() * offset),
        stride(x.element_size() * x.strides[2]),
        bytes(x.element_size() * x.shape[3]),
        rows(count) {
    if (stride == bytes && rows > 0) bytes *= rows, rows = 1;
  }
};

class RowsAhead {
 public:
  // Rows first .. first + count - 1 of head h in batch b, after those added before; seven times at most. Of rows in
  // pages only those of the first page: the others are gathered by a copy.
  template <class Byte>
  void add(const AnyTensor<Byte>& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) {
    if (!x || count <= 0) return;
    if (x.pages) count = std::min(count, x.pages->page_size - first % x.pages->page_size);
    x.for_runs(b, h, first, count, [&](std::int64_t offset, std::int64_t, std::int64_t rows) {
      runs_.at(added_++) = RowsInMemory(x, offset, rows);
    });
  }

  // Prefetches the next lines into the second-level cache: the tile fills the first. About ten can be outstanding; more
  // at once would wait.
  void fetch(std::int64_t lines) {
    while (lines > 0 && run_ < added_) {
      const RowsInMemory& run = runs_[run_];
      const std::int64_t now = std::min(lines, (run.bytes - byte_ + kLine - 1) / kLine);
      for (std::int64_t i = 0; i < now; i++) __builtin_prefetch(run.data + byte_ + i * kLine, 0, 2);
      lines -= now;
      byte_ += now * kLine;
      if (byte_ >= run.bytes) next_row();
    }
  }

 private:
  void next_row() {
    RowsInMemory& run = runs_[run_];
    byte_ = 0;
    run.data += run.stride;
    if (--run.rows == 0) run_++;
  }

  std::array<RowsInMemory, 7> runs_;
  std::size_t added_ = 0, run_ = 0;
  std::int64_t byte_ = 0;  // of its row
};

}  // namespace phasor::detail
