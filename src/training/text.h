// The bytes of a file, or of all text files below a folder, as one text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "phasor/core/mapped_file.h"

namespace phasor::detail {

class Text {
 public:
  explicit Text(const std::filesystem::path& path);

  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  std::int64_t files() const { return static_cast<std::int64_t>(files_.size()); }
  std::int64_t skipped() const { return skipped_; }  // files that are not UTF-8 text

  // Calls visit(byte) for each of the bytes [begin, end).
  template <class Visit>
  void for_each(std::int64_t begin, std::int64_t end, const Visit& visit) const;

 private:
  void add(const std::filesystem::path& file, bool only_text);

  std::vector<MappedFile> files_;
  std::vector<std::int64_t> ends_;  // of each file, in the whole text
  std::int64_t skipped_ = 0;
};

// Whether all of it is UTF-8 without a byte 0.
bool is_text(std::span<const std::byte> bytes);

template <class Visit>
void Text::for_each(std::int64_t begin, std::int64_t end, const Visit& visit) const {
  auto file = static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
  for (; begin < end; file++) {
    const std::span<const std::byte> bytes = files_[file].bytes();
    const std::int64_t first = ends_[file] - static_cast<std::int64_t>(bytes.size());
    const std::int64_t last = std::min(end, ends_[file]);
    for (; begin < last; begin++) visit(std::to_integer<std::int32_t>(bytes[static_cast<std::size_t>(begin - first)]));
  }
}

}  // namespace phasor::detail
