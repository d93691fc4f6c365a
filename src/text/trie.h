// The texts of a set that a text begins with, shortest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace phasor::text {

// Nodes are numbered level by level, so that the children of a node lie side by side, their bytes too.
class Trie {
 public:
  struct Entry {
    std::string_view text;  // not empty; each once
    std::int32_t value;     // not negative
  };
  Trie() = default;
  explicit Trie(std::vector<Entry> entries);

  // Calls found(length, value) for each.
  template <class Found>
  void prefixes(std::string_view text, const Found& found) const {
    std::size_t node = 0;
    for (std::size_t at = 0; at < text.size(); at++) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node == 0) return;
      if (values_[node] >= 0) found(at + 1, values_[node]);
    }
  }
  // The longest, as length and value.
  std::optional<std::pair<std::size_t, std::int32_t>> longest(std::string_view text) const {
    std::optional<std::pair<std::size_t, std::int32_t>> last;
    prefixes(text, [&](std::size_t length, std::int32_t value) { last = {length, value}; });
    return last;
  }
  bool empty() const { return values_.empty(); }

 private:
  std::size_t child(std::size_t node, unsigned char byte) const;

  std::vector<std::int32_t> values_{};     // -1: no text ends here
  std::vector<std::uint32_t> children_{};  // the first child of each node; those of the last end behind all
  std::vector<unsigned char> bytes_{};     // by which a node is reached
  std::vector<std::uint32_t> from_root_ = std::vector<std::uint32_t>(256, 0);  // the root's children by their byte
};

}  // namespace phasor::text
