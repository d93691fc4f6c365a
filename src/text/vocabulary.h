// Tokens and their ids, both ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phasor::text {

std::uint64_t hash_text(std::string_view text);

constexpr std::int32_t kNoToken = -1;

// A table of open addressing: a slot has a part of the hash and the number of a token, whose bytes lie in one row.
class Vocabulary {
 public:
  // False, and nothing changes, if the token or the id is there already. Ids are not negative.
  bool add(std::string_view token, std::int32_t id);
  std::int32_t find(std::string_view token) const;  // kNoToken if it is not there
  std::optional<std::string_view> token(std::int32_t id) const;
  std::size_t size() const { return tokens_.size(); }
  std::int32_t largest_id() const { return static_cast<std::int32_t>(by_id_.size()) - 1; }

 private:
  struct Token {
    std::size_t begin;
    std::uint32_t length;
    std::int32_t id;
  };
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t token = kNoToken;
  };
  std::string_view bytes_of(const Token& token) const {
    return std::string_view(bytes_).substr(token.begin, token.length);
  }
  // The slot that has the token, or the free one where it belongs.
  std::size_t slot_of(std::string_view token, std::uint64_t hash) const;
  void grow();

  std::string bytes_;
  std::vector<Token> tokens_;
  std::vector<std::int32_t> by_id_;
  std::vector<Slot> slots_;
};

}  // namespace phasor::text
