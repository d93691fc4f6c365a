#include "trie.h"

#include <algorithm>
#include <cstring>

namespace phasor::text {

Trie::Trie(std::vector<Entry> entries) {
  std::ranges::sort(entries, {}, &Entry::text);
  // Entries with a common beginning, whose node is the next in line.
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> level{{0, entries.size(), 0}};
  bytes_.push_back(0);
  while (!level.empty()) {
    std::vector<Range> next;
    for (Range range : level) {
      const bool ends = range.begin < range.end && entries[range.begin].text.size() == range.depth;
      values_.push_back(ends ? entries[range.begin].value : -1);
      if (ends) range.begin++;
      children_.push_back(static_cast<std::uint32_t>(bytes_.size()));
      while (range.begin < range.end) {
        const char byte = entries[range.begin].text[range.depth];
        std::size_t end = range.begin;
        while (end < range.end && entries[end].text[range.depth] == byte) end++;
        if (range.depth == 0) from_root_[static_cast<unsigned char>(byte)] = static_cast<std::uint32_t>(bytes_.size());
        bytes_.push_back(static_cast<unsigned char>(byte));
        next.push_back({range.begin, end, range.depth + 1});
        range.begin = end;
      }
    }
    level = std::move(next);
  }
  children_.push_back(static_cast<std::uint32_t>(bytes_.size()));
}

std::size_t Trie::child(std::size_t node, unsigned char byte) const {
  if (node == 0) return from_root_[byte];
  const std::size_t first = children_[node], count = children_[node + 1] - first;
  if (count == 0) return 0;
  const void* found = std::memchr(bytes_.data() + first, byte, count);
  return found == nullptr ? 0 : static_cast<std::size_t>(static_cast<const unsigned char*>(found) - bytes_.data());
}

}  // namespace phasor::text
