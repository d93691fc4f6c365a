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

  // kCache: 3 is the first-level cache, 2 the second.
  template <int kCache>
  void fetch() {
    __builtin_prefetch(at_, 0, kCache);
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

// What is prefetched while a block of keys is processed: the next block into the first-level cache, and the one after
// it into the second, because hardware follows no rows from page to page.
struct RowsToFetch {
  std::span<const RowsInMemory> keys, values, later_keys, later_values;
};

// step() is called `steps` times, and each time prefetches its share.
class DecodeAhead {
 public:
  DecodeAhead(const RowsToFetch& rows, std::int64_t steps)
      : keys_(rows.keys),
        values_(rows.values),
        later_keys_(rows.later_keys),
        later_values_(rows.later_values),
        lines_(share(rows.keys, rows.values, steps)),
        later_lines_(share(rows.later_keys, rows.later_values, steps)) {}

  void step() {
    for (std::int64_t i = 0; i < lines_; i++) keys_.fetch<3>(), values_.fetch<3>();
    for (std::int64_t i = 0; i < later_lines_; i++) later_keys_.fetch<2>(), later_values_.fetch<2>();
  }

 private:
  static std::int64_t share(std::span<const RowsInMemory> keys, std::span<const RowsInMemory> values,
                            std::int64_t steps) {
    return (std::max(LinesAhead::count(keys), LinesAhead::count(values)) + steps - 1) / steps;
  }

  LinesAhead keys_, values_, later_keys_, later_values_;
  std::int64_t lines_, later_lines_;
};

}  // namespace phasor::detail
