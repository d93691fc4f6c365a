// A text and the pieces that it is split into: what pre-tokenizers work on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phasor::text {

struct Piece {
  std::uint32_t begin, end;  // bytes of the text
  bool at_start;             // as Section::at_start
};

// What becomes of a match and of its neighbours, which are not matches.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

class Pieces {
 public:
  // One piece, the whole text.
  void assign(std::string_view text, bool at_start);

  std::string_view text_of(const Piece& piece) const {
    return std::string_view(text_).substr(piece.begin, piece.end - piece.begin);
  }
  const std::vector<Piece>& all() const { return pieces_; }

  // Splits every piece. find(text, part) calls part(begin, end, is_match) for the parts of a piece, in order and
  // without gaps.
  template <class Find>
  void split(SplitBehavior behavior, const Find& find) {
    next_pieces_.clear();
    for (const Piece& piece : pieces_) {
      begin_piece(piece);
      find(text_of(piece), [&](std::size_t begin, std::size_t end, bool is_match) {
        add_part(behavior, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), is_match);
      });
      end_piece();
    }
    pieces_.swap(next_pieces_);
  }

  // Writes every piece anew: write(text, piece, out) puts it behind `out`.
  template <class Write>
  void rewrite(const Write& write) {
    next_text_.clear();
    for (Piece& piece : pieces_) {
      const std::size_t begin = next_text_.size();
      write(text_of(piece), piece, next_text_);
      piece.begin = static_cast<std::uint32_t>(begin);
      piece.end = static_cast<std::uint32_t>(next_text_.size());
    }
    text_.swap(next_text_);
    check_size();
  }

 private:
  void begin_piece(const Piece& piece);
  void end_piece();
  void add_part(SplitBehavior behavior, std::uint32_t begin, std::uint32_t end, bool is_match);
  void put(std::uint32_t begin, std::uint32_t end);
  void check_size() const;

  std::string text_{}, next_text_{};
  std::vector<Piece> pieces_{}, next_pieces_{};
  // While a piece is split:
  Piece whole_{};
  std::size_t first_part_ = 0;  // of this piece in next_pieces_
  bool after_match_ = false;
  bool waits_ = false;  // a match that may merge with what follows
  Piece waiting_{};
};

}  // namespace phasor::text
