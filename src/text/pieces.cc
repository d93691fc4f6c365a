#include "pieces.h"

#include <algorithm>
#include <cstddef>

#include "phasor/core/check.h"

namespace phasor::text {

void Pieces::check_size() const {
  constexpr std::size_t kLargest = std::size_t{1} << 31;
  PHASOR_CHECK(text_.size() < kLargest, "Tokenizer::encode", "text: ", text_.size(),
               " bytes when it is normalised, expected less than 2 GiB");
}

void Pieces::assign(std::string_view text, bool at_start) {
  text_ = text;
  check_size();
  pieces_.assign(1, {0, static_cast<std::uint32_t>(text.size()), at_start});
  if (text.empty()) pieces_.clear();
}

void Pieces::begin_piece(const Piece& piece) {
  whole_ = piece;
  first_part_ = next_pieces_.size();
  after_match_ = waits_ = false;
}

void Pieces::end_piece() {
  if (waits_) put(waiting_.begin, waiting_.end);
  // Empty matches took part in merging, but are no pieces.
  const auto first = next_pieces_.begin() + static_cast<std::ptrdiff_t>(first_part_);
  next_pieces_.erase(
      std::remove_if(first, next_pieces_.end(), [](const Piece& each) { return each.begin == each.end; }),
      next_pieces_.end());
}

void Pieces::put(std::uint32_t begin, std::uint32_t end) {
  next_pieces_.push_back({whole_.begin + begin, whole_.begin + end, whole_.at_start && begin == 0});
}

void Pieces::add_part(SplitBehavior behavior, std::uint32_t begin, std::uint32_t end, bool is_match) {
  const bool has_last = next_pieces_.size() > first_part_;
  switch (behavior) {
    case SplitBehavior::removed:
      if (!is_match) put(begin, end);
      break;
    case SplitBehavior::isolated:
      put(begin, end);
      break;
    case SplitBehavior::contiguous:
    case SplitBehavior::merged_with_previous: {
      const bool merges = behavior == SplitBehavior::contiguous ? is_match == after_match_ : is_match && !after_match_;
      if (merges && has_last)
        next_pieces_.back().end = whole_.begin + end;
      else
        put(begin, end);
      break;
    }
    case SplitBehavior::merged_with_next:
      if (waits_ && is_match) put(waiting_.begin, waiting_.end);
      if (is_match)
        waiting_ = {begin, end, false};
      else
        put(waits_ ? waiting_.begin : begin, end);
      waits_ = is_match;
      break;
  }
  after_match_ = is_match;
}

}  // namespace phasor::text
