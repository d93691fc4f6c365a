// Prefetches the next keys and values while others are processed. Requests must be spread evenly, because only about
// twenty lines can be outstanding, and alternate between keys and values, because the hardware prefetcher then follows
// both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "rows_ahead.h"

namespace phasor::detail {

// The lines of some rows, one after the other; then the last one again.
class LinesAhead {
 public:
  // One run, or several where the rows are in pages; without any, there is nothing to fetch.
  explicit LinesAhead(std::span<const RowsInMemory> runs) : runs_(runs) {
    if (!runs_.empty()) next_run();
  }

  static std::int64_t count(std::span<const RowsInMemory> runs) {
    std::int64_t lines = 0;
    for (const RowsInMemory& run : runs) lines += run.rows * ((run.bytes + kLine - 1) / kLine);
    return lines;
  }

  void fetch() {
    __builtin_prefetch(at_);
    at_ += kLine;
    if (at_ >= end_) next_row();
  }

 private:
  void next_row() {
    if (rows_.rows > 1) {
      rows_.rows--;
      rows_.data += rows_.stride;
      at_ = rows_.data;
      end_ = at_ + rows_.bytes;
    } else if (!runs_.empty()) {
      next_run();
    } else {
      at_ -= kLine;
    }
  }

  void next_run() {
    rows_ = runs_.front();
    runs_ = runs_.subspan(1);
    at_ = rows_.data;
    end_ = at_ + rows_.bytes;
  }

  std::span<const RowsInMemory> runs_;  // those to come
  RowsInMemory rows_;                   // this one and those after it
  const std::byte *at_ = nullptr, *end_ = nullptr;
};

// The next block, which is prefetched while a block of keys is processed.
struct RowsToFetch {
  std::span<const RowsInMemory> keys, values;
};

// step() is called `steps` times, and each time prefetches its share.
class DecodeAhead {
 public:
  DecodeAhead(const RowsToFetch& rows, std::int64_t steps)
      : keys_(rows.keys),
        values_(rows.values),
        lines_((std::max(LinesAhead::count(rows.keys), LinesAhead::count(rows.values)) + steps - 1) / steps) {}

  void step() {
    for (std::int64_t i = 0; i < lines_; i++) keys_.fetch(), values_.fetch();
  }

 private:
  LinesAhead keys_, values_;
  std::int64_t lines_;
};

}  // namespace phasor::detail
