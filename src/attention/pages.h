// Rows of sequences that are kept in pages: which page has which rows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace phasor::detail {

struct PageTable {
  const std::int32_t* pages = nullptr;  // [sequences][pages_of_a_sequence], checked where they are read
  std::int64_t pages_of_a_sequence = 0;
  std::int64_t page_size = 1;  // rows of a page
  std::int64_t pool = 0;       // pages of the memory

  // Calls body(page, row, at, count) for each page of the rows first .. first + count - 1 of sequence b: rows
  // first + at .. are rows row .. of the page.
  template <class Body>
  void for_pages(std::int64_t b, std::int64_t first, std::int64_t count, const Body& body) const {
    const std::int32_t* page = pages + b * pages_of_a_sequence + first / page_size;
    std::int64_t row = first % page_size;
    for (std::int64_t at = 0; at < count; row = 0) {
      const std::int64_t here = std::min(count - at, page_size - row);
      body(*page++, row, at, here);
      at += here;
    }
  }
};

}  // namespace phasor::detail
