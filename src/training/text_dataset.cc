#include <algorithm>
#include <cmath>
#include <vector>

#include "draw.h"
#include "phasor/core/check.h"
#include "phasor/core/mapped_file.h"
#include "phasor/training/dataset.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      files.push_back(entry->path());
    }
  }
  PHASOR_CHECK(!error, "text_dataset", folder.string(), ": cannot be listed (", error.message(),
               "), expected a readable folder");
  std::ranges::sort(files);
  return files;
}

// Several files as one text.
class Text {
 public:
  explicit Text(const fs::path& path) {
    for (const fs::path& file : fs::is_directory(path) ? files_below(path) : std::vector{path}) {
      MappedFile mapped(file);
      if (mapped.bytes().empty()) continue;
      size_ += static_cast<std::int64_t>(mapped.bytes().size());
      files_.push_back(std::move(mapped));
      ends_.push_back(size_);
    }
  }

  std::int64_t size() const { return size_; }

  // Calls function(i, byte begin + i) for each of `count` bytes.
  template <class Function>
  void for_each(std::int64_t begin, std::int64_t count, const Function& function) const {
    auto file = static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
    for (std::int64_t i = 0; i < count; i++) {
      if (begin + i == ends_[file]) file++;
      const std::int64_t in_file = begin + i - (ends_[file] - static_cast<std::int64_t>(files_[file].bytes().size()));
      function(i, std::to_integer<std::int32_t>(files_[file].bytes()[static_cast<std::size_t>(in_file)]));
    }
  }

 private:
  std::vector<MappedFile> files_;
  std::vector<std::int64_t> ends_;  // of each file, in the whole text
  std::int64_t size_ = 0;
};

class TextDataset : public Dataset {
 public:
  TextDataset(const fs::path& path, const TextConfig& config) : name_(path.string()), config_(config), text_(path) {
    PHASOR_CHECK(config.validation_fraction > 0.0 && config.validation_fraction < 1.0, "text_dataset",
                 "validation_fraction: ", config.validation_fraction, ", expected between 0 and 1");
    PHASOR_CHECK(text_.size() > 0, "text_dataset", name_, ": no text in it, expected some");
    const auto kept = std::ceil(static_cast<double>(text_.size()) * config.validation_fraction);
    train_bytes_ = text_.size() - static_cast<std::int64_t>(kept);
  }

  std::int64_t vocabulary() const override { return 256; }
  bool exact_match() const override { return false; }
  bool next_token() const override { return true; }

 private:
  // Both splits, since a length that only one of them has is found out too late.
  void check_length(std::int64_t length) const override {
    const std::int64_t shorter = std::min(train_bytes_, text_.size() - train_bytes_);
    PHASOR_CHECK(shorter > length, "fill", "batch: rows of ", length, " tokens and ", name_, " of ", text_.size(),
                 " bytes, ", train_bytes_, " of them for training, expected one byte more than a row in each part");
  }

  void fill_row(std::int64_t row, Split split, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) const override {
    const std::int64_t first = split == Split::train ? 0 : train_bytes_;
    const std::int64_t bytes = split == Split::train ? train_bytes_ : text_.size() - train_bytes_;
    const auto length = static_cast<std::int64_t>(tokens.size());
    const std::int64_t begin = first + Draw(config_.seed, split, row).below(bytes - length);
    text_.for_each(begin, length + 1, [&](std::int64_t i, std::int32_t byte) {
      if (i < length) tokens[static_cast<std::size_t>(i)] = byte;
      if (i > 0) targets[static_cast<std::size_t>(i - 1)] = byte;
    });
  }

  std::string name_;  // for messages
  TextConfig config_;
  Text text_;
  std::int64_t train_bytes_ = 0;
};

}  // namespace

TextSize text_size(const fs::path& path) {
  const Text text(path);
  TextSize size{.bytes = text.size(), .hash = 0xcbf29ce484222325u};
  text.for_each(0, text.size(), [&](std::int64_t, std::int32_t byte) {
    size.hash = (size.hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  });
  return size;
}

std::unique_ptr<Dataset> text_dataset(const fs::path& path, const TextConfig& config) {
  return std::make_unique<TextDataset>(path, config);
}

}  // namespace phasor
