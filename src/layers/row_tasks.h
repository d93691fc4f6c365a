// Work on independent rows or elements, split into tasks by shape alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "phasor/core/parallel.h"

namespace phasor::detail {

// Elements of a task: enough work for a thread.
constexpr std::int64_t kTaskElements = std::int64_t{1} << 15;

// Calls work(first, count) for parts of rows 0 .. rows - 1 with this number of columns.
template <class Work>
void for_each_rows(std::int64_t rows, std::int64_t columns, const Work& work) {
  const std::int64_t part = std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, columns));
  parallel_for((rows + part - 1) / part, [&](std::int64_t task) {
    const std::int64_t first = task * part;
    work(first, std::min(part, rows - first));
  });
}

// The same for the elements of contiguous arrays.
template <class Work>
void for_each_part(std::int64_t elements, const Work& work) {
  for_each_rows(elements, 1,
                [&](std::int64_t first, std::int64_t count) { work(first, static_cast<std::size_t>(count)); });
}

}  // namespace phasor::detail
