// Prefetches the next keys and values while others are processed. Requests must be spread evenly, because only about
// twenty lines can be outstanding, and alternate between keys and values, because the hardware prefetcher then follows
// both.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rows_ahead.h"

namespace phasor::detail {

// The lines of some rows, one after the other, into the first-level cache; then the last one again.
class LinesAhead {
 public:
  explicit LinesAhead(const RowsInMemory& rows) : rows_(rows), at_(rows.data), end_(rows.data + rows.bytes) {}

  std::int64_t count() const { return rows_.rows * ((rows_.bytes + kLine - 1) / kLine); }

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
    } else {
      at_ -= kLine;
    }
  }

  RowsInMemory rows_;  // this one and those after it
  const std::byte *at_, *end_;
};

// step() is called `steps` times, and each time prefetches its share.
class DecodeAhead {
 public:
  DecodeAhead(const RowsInMemory& keys, const RowsInMemory& values, std::int64_t steps)
      : keys_(keys), values_(values), lines_((std::max(keys_.count(), values_.count()) + steps - 1) / steps) {}

  void step() {
    for (std::int64_t i = 0; i < lines_; i++) keys_.fetch(), values_.fetch();
  }

 private:
  LinesAhead keys_, values_;
  std::int64_t lines_;
};

}  // namespace phasor::detail
