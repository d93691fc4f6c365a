// Regular expressions as tokenizer.json has them: Oniguruma's syntax, matched by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace phasor::text {

// The same expression for PCRE2. What the two read differently is rewritten (\s, \w, \p{Han}, ...); where that is not
// possible, std::invalid_argument says what is not supported.
std::string pcre2_syntax(std::string_view oniguruma);
// An expression that matches this text alone.
std::string literal_syntax(std::string_view text);

struct Match {
  std::size_t begin, end;
};

class Pattern {
 public:
  // An expression of PCRE2. Throws std::invalid_argument with PCRE2's words.
  explicit Pattern(const std::string& expression);

  // The first match in valid UTF-8 that begins at `from` or later. Throws if the expression backtracks without end.
  std::optional<Match> find(std::string_view text, std::size_t from) const;

 private:
  struct Free {
    void operator()(void* code) const;
  };
  std::shared_ptr<void> code_;
  bool fast_ = false;  // compiled to machine code
};

// Calls part(begin, end, is_match) for matches and for what lies between them, in order, over the whole text. An empty
// match directly behind another match is none, and an empty text has none.
template <class Part>
void for_each_part(const Pattern& pattern, std::string_view text, const Part& part) {
  std::size_t done = 0, from = 0;
  bool first = true;
  if (text.empty()) return;
  while (from <= text.size()) {
    const std::optional<Match> match = pattern.find(text, from);
    if (!match) break;
    if (match->begin == match->end && !first && match->begin == done) {
      // Onward by one character.
      from++;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) from++;
      continue;
    }
    if (done != match->begin) part(done, match->begin, false);
    part(match->begin, match->end, true);
    first = false;
    done = from = match->end;
  }
  if (done != text.size()) part(done, text.size(), false);
}

}  // namespace phasor::text
