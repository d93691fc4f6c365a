// Added tokens: texts that become one token before the model sees anything, special tokens among them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "json/fields.h"
#include "normalizer.h"
#include "trie.h"
#include "vocabulary.h"

namespace phasor::text {

struct AddedToken {
  std::string content{};
  std::int32_t id = 0;
  bool single_word = false;             // only between characters that are no part of words
  bool lstrip = false, rstrip = false;  // takes the space on this side with it
  bool normalized = false;              // is looked for in the normalised text, in its own normalised form
  bool special = false;
  std::string form{};  // what is looked for, and what decoders get
};

// Looks for some of the added tokens: leftmost, of these the longest.
class TokenFinder {
 public:
  TokenFinder() = default;
  explicit TokenFinder(const std::vector<const AddedToken*>& tokens);

  // Whether the text begins with a token for which this holds.
  template <class Holds>
  bool begins_with(std::string_view text, const Holds& holds) const {
    bool found = false;
    if (!tokens_.empty())
      trie_.prefixes(text, [&](std::size_t, std::int32_t i) { found |= holds(*tokens_[static_cast<std::size_t>(i)]); });
    return found;
  }

  // Calls part(begin, end, token) for the tokens, and for what lies between them with a null pointer, in order. At the
  // plain places, which are sorted, none is found.
  template <class Part>
  void split(std::string_view text, std::span<const std::size_t> plain, const Part& part) const {
    std::size_t done = 0;
    for (std::size_t at = 0; !tokens_.empty() && at < text.size();) {
      const auto found = trie_.longest(text.substr(at));
      if (!found) {
        at++;
        continue;
      }
      const AddedToken& token = *tokens_[static_cast<std::size_t>(found->second)];
      if (std::ranges::binary_search(plain, at)) {
        at++;
        continue;
      }
      std::size_t begin = at, end = at += found->first;
      if (token.single_word && touches_word(text, begin, end)) continue;
      if (token.lstrip) begin = std::max(space_before(text, begin), done);
      if (token.rstrip) end = space_behind(text, end);
      if (done < begin) part(done, begin, nullptr);
      part(begin, end, &token);
      done = end;
    }
    if (done < text.size()) part(done, text.size(), nullptr);
  }

 private:
  static bool touches_word(std::string_view text, std::size_t begin, std::size_t end);
  static std::size_t space_before(std::string_view text, std::size_t begin);
  static std::size_t space_behind(std::string_view text, std::size_t end);

  std::vector<const AddedToken*> tokens_{};
  Trie trie_{};
};

class AddedTokens {
 public:
  AddedTokens(FieldReader& reader, const Vocabulary& vocabulary, const Normalizer& normalizer);
  AddedTokens(const AddedTokens&) = delete;  // finders point to its tokens
  AddedTokens& operator=(const AddedTokens&) = delete;

  const TokenFinder& plain() const { return plain_; }            // of those looked for before normalisation
  const TokenFinder& normalized() const { return normalized_; }  // of the others
  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  std::size_t size() const { return tokens_.size(); }
  std::size_t not_in_model() const { return not_in_model_; }

 private:
  void add(FieldReader& reader, const Vocabulary& vocabulary, const Normalizer& normalizer);

  std::map<std::int32_t, AddedToken> tokens_{};
  std::map<std::string, std::int32_t, std::less<>> ids_{};
  std::size_t not_in_model_ = 0;
  TokenFinder plain_{}, normalized_{};
};

}  // namespace phasor::text
