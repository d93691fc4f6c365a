// Ranges of rows, columns or depth, and how they are split.
#pragma once

#include <algorithm>
#include <cstdint>

namespace phasor::products {

struct Range {
  std::int64_t first = 0, count = 0;

  std::int64_t end() const { return first + count; }
};

constexpr std::int64_t ceil_div(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }
constexpr std::int64_t round_up(std::int64_t count, std::int64_t unit) { return ceil_div(count, unit) * unit; }

// Part i of a range that is split into parts of the given size. The last part may be smaller.
inline Range part_of(const Range& whole, std::int64_t size, std::int64_t i) {
  return {whole.first + i * size, std::min(size, whole.count - i * size)};
}

// Calls body(part) for all these parts, in order.
template <class Body>
void for_each_part(const Range& whole, std::int64_t size, const Body& body) {
  for (std::int64_t i = 0; i < ceil_div(whole.count, size); i++) body(part_of(whole, size, i));
}

}  // namespace phasor::products
