#include <algorithm>
#include <cmath>
#include <vector>

#include "draw.h"
#include "phasor/core/check.h"
#include "phasor/training/dataset.h"
#include "text.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

// Bytes of the text that belong to one split: pieces, one after the other.
class Pieces {
 public:
  void add(std::int64_t begin, std::int64_t end) {
    pieces_.push_back({begin - size_, size_ + end - begin});
    size_ += end - begin;
  }
  std::int64_t size() const { return size_; }

  // Calls visit(begin, end) for the parts of the text that make up the bytes [first, last) of the split.
  template <class Visit>
  void for_each(std::int64_t first, std::int64_t last, const Visit& visit) const {
    auto piece = std::ranges::upper_bound(pieces_, first, {}, &Piece::end);
    for (; first < last; piece++) {
      const std::int64_t until = std::min(last, piece->end);
      visit(first + piece->shift, until + piece->shift);
      first = until;
    }
  }

 private:
  struct Piece {
    std::int64_t shift;  // from the split to the text
    std::int64_t end;    // in the split
  };
  std::vector<Piece> pieces_;
  std::int64_t size_ = 0;
};

class TextDataset : public Dataset {
 public:
  TextDataset(const fs::path& path, const TextConfig& config) : name_(path.string()), config_(config), text_(path) {
    PHASOR_CHECK(config.validation_fraction > 0.0 && config.validation_fraction < 1.0, "text_dataset",
                 "validation_fraction: ", config.validation_fraction, ", expected between 0 and 1");
    PHASOR_CHECK(text_.size() > 0, "text_dataset", name_, ": no text in it",
                 text_.skipped() > 0 ? " (" + std::to_string(text_.skipped()) + " files that are not UTF-8)" : "",
                 ", expected some");
    split();
  }

  std::int64_t vocabulary() const override { return 256; }
  bool exact_match() const override { return false; }
  bool next_token() const override { return true; }

 private:
  // Settings of trainings stand for this split: DatasetConfig::split changes when it does.
  void split() {
    constexpr std::int64_t kShortestPart = 1 << 16;
    const std::int64_t parts = std::max<std::int64_t>(1, text_.size() / kShortestPart);
    const auto edge = [&](std::int64_t part) {
      return text_.size() / parts * part + text_.size() % parts * part / parts;
    };
    for (std::int64_t part = 0; part < parts; part++) {
      const std::int64_t begin = edge(part), end = edge(part + 1);
      const auto held_back = std::ceil(static_cast<double>(end - begin) * config_.validation_fraction);
      const std::int64_t middle = end - static_cast<std::int64_t>(held_back);
      train_.add(begin, middle);
      validation_.add(middle, end);
    }
  }

  // Both splits, since a length that only one of them has is found out too late.
  void check_length(std::int64_t length) const override {
    PHASOR_CHECK(std::min(train_.size(), validation_.size()) > length, "fill", "batch: rows of ", length,
                 " tokens and ", name_, " of ", text_.size(), " bytes, ", train_.size(),
                 " of them for training, expected one byte more than a row in each part");
  }

  void fill_row(std::int64_t row, Split split, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) const override {
    const Pieces& pieces = split == Split::train ? train_ : validation_;
    const std::size_t length = tokens.size();
    const std::int64_t first = Draw(config_.seed, split, row).below(pieces.size() - static_cast<std::int64_t>(length));
    std::size_t i = 0;
    pieces.for_each(first, first + static_cast<std::int64_t>(length) + 1, [&](std::int64_t begin, std::int64_t end) {
      text_.for_each(begin, end, [&](std::int32_t byte) {
        if (i < length) tokens[i] = byte;
        if (i > 0) targets[i - 1] = byte;
        i++;
      });
    });
  }

  std::string name_;  // for messages
  TextConfig config_;
  detail::Text text_;
  Pieces train_, validation_;
};

}  // namespace

TextSummary text_summary(const fs::path& path) {
  const detail::Text text(path);
  TextSummary found{
      .size = {.bytes = text.size(), .hash = 0xcbf29ce484222325u}, .files = text.files(), .skipped = text.skipped()};
  text.for_each(0, text.size(), [&](std::int32_t byte) {
    found.size.hash = (found.size.hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  });
  return found;
}

std::unique_ptr<Dataset> text_dataset(const fs::path& path, const TextConfig& config) {
  return std::make_unique<TextDataset>(path, config);
}

}  // namespace phasor
