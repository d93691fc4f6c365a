// Oniguruma's syntax (its RE document) rewritten for PCRE2. Most is the same in both. Rewritten is what differs:
//   \s \w \d \h and their opposites: the sets that Oniguruma's tables have; PCRE2's \w lacks marks, its \s has U+180E
//   \b \B: by the same \w
//   \p{Han}: the script; PCRE2 would also take characters that scripts share
//   \uHHHH, \Z
// Refused is what has no simple equal: classes in classes, &&, X{2}+, flags other than i and x, \K and the like.
#include <array>
#include <cctype>
#include <stdexcept>
#include <string>
#include <string_view>

#include "pattern.h"
#include "utf8.h"

namespace phasor::text {
namespace {

// Inside of classes. Characters, then all others, since a set cannot be negated inside a class.
struct Set {
  char letter;
  std::string_view inside, others;
};
constexpr std::array<Set, 4> kSets{{
    {'s', R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})",
     R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})"},
    {'w', R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})", ""},
    {'d', R"(\p{Nd})", R"(\P{Nd})"},
    {'h', "0-9A-Fa-f", R"(\x{0}-/:-@G-`g-\x{10ffff})"},
}};

const Set* find_set(char letter) {
  for (const Set& set : kSets)
    if (set.letter == letter) return &set;
  return nullptr;
}

[[noreturn]] void unsupported(const std::string& what) {
  throw std::invalid_argument(what + " in a regular expression is not supported");
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view from) : from_(from) {}

  std::string rewritten() {
    while (at_ < from_.size()) {
      const char next = from_[at_];
      if (next == '\\') {
        escape(false);
      } else if (next == '[') {
        character_class();
      } else if (next == '(' && from_.substr(at_, 2) == "(?") {
        group();
      } else if (next == '{') {
        interval();
      } else {
        to_ += next;
        at_++;
      }
    }
    return std::move(to_);
  }

 private:
  void copy(std::size_t count) {
    to_ += from_.substr(at_, count);
    at_ += count;
  }

  void escape(bool in_class) {
    if (at_ + 1 == from_.size()) unsupported("\\ at the end");
    const char letter = from_[at_ + 1];
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    if (const Set* set = find_set(lower)) return set_escape(*set, letter != lower, in_class);
    if (lower == 'p') return property();
    if (letter == 'u') return code_point();
    if (letter == 'x') return hexadecimal();
    if (!in_class && lower == 'b') return boundary(letter == 'B');
    // Those that mean the same in both. A letter that neither explains would be that letter in one, an error in the
    // other.
    const std::string_view same = in_class ? "tnrfvaeb" : "tnrfvaeAzGRX";
    if (!in_class && letter == 'Z') {
      to_ += R"((?=\n?\z))";
      at_ += 2;
    } else if (std::isalpha(static_cast<unsigned char>(letter)) != 0 && same.find(letter) == std::string_view::npos) {
      unsupported(std::string("\\") + letter);
    } else if (std::isdigit(static_cast<unsigned char>(letter)) != 0) {
      unsupported(std::string("\\") + letter);
    } else if (letter == 'v') {
      to_ += R"(\x{b})";  // PCRE2: any vertical space
      at_ += 2;
    } else {
      copy(1 + character_length(letter));
    }
  }

  void set_escape(const Set& set, bool negated, bool in_class) {
    if (in_class && negated && set.others.empty()) unsupported(std::string("\\W inside of [...]"));
    if (in_class)
      to_ += negated ? set.others : set.inside;
    else
      (to_ += negated ? "[^" : "[").append(set.inside) += ']';
    at_ += 2;
  }

  void boundary(bool negated) {
    const std::string word = '[' + std::string(find_set('w')->inside) + ']';
    to_ += negated ? "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))"
                   : "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
    at_ += 2;
  }

  // \p{L}, \p{^L}, \P{Lu}: categories are named by one or two letters, scripts by more.
  void property() {
    const std::size_t close = from_.find('}', at_);
    if (from_.substr(at_ + 2, 1) != "{" || close == std::string_view::npos) unsupported("\\p without {NAME}");
    std::string_view name = from_.substr(at_ + 3, close - at_ - 3);
    const bool caret = name.starts_with('^');
    if (caret) name.remove_prefix(1);
    const bool negated = (from_[at_ + 1] == 'P') != caret;
    to_ += negated ? "\\P{" : "\\p{";
    if (name.size() > 2 && name != "Any") to_ += "sc:";
    (to_ += name) += '}';
    at_ = close + 1;
  }

  void code_point() {
    const std::string_view digits = from_.substr(at_ + 2, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      unsupported("\\u without four hexadecimal digits");
    (to_ += "\\x{").append(digits) += '}';
    at_ += 6;
  }

  // \x{2603} is a character in both; \xE2 is a byte for Oniguruma, so only ASCII is the same.
  void hexadecimal() {
    if (from_.substr(at_ + 2, 1) == "{") {
      const std::size_t close = from_.find('}', at_);
      if (close == std::string_view::npos) unsupported("\\x{ without }");
      return copy(close + 1 - at_);
    }
    const std::string_view digits = from_.substr(at_ + 2, 2);
    if (digits.size() != 2 || digits[0] > '7' ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      unsupported("\\x without {...} or two hexadecimal digits up to 7F");
    copy(4);
  }

  void character_class() {
    copy(1);
    if (from_.substr(at_, 1) == "^") copy(1);
    if (from_.substr(at_, 1) == "]") unsupported("] first in [...]");
    while (at_ < from_.size() && from_[at_] != ']') {
      if (from_[at_] == '\\') {
        escape(true);
      } else if (from_.substr(at_, 2) == "[:") {
        const std::size_t close = from_.find(":]", at_);
        if (close == std::string_view::npos) unsupported("[: without :]");
        copy(close + 2 - at_);
      } else if (from_[at_] == '[') {
        unsupported("[...] inside of [...]");
      } else if (from_.substr(at_, 2) == "&&") {
        unsupported("&& inside of [...]");
      } else {
        copy(character_length(from_[at_]));
      }
    }
    if (at_ == from_.size()) unsupported("[ without ]");
    copy(1);
  }

  // (?:, (?=, (?!, (?>, (?<=, (?<!, (?<name>, (?#...), (?i), (?i-x:
  void group() {
    if (from_.size() == at_ + 2) unsupported("(? at the end");
    if (std::string_view(":=!><#").find(from_[at_ + 2]) != std::string_view::npos) return copy(3);
    const std::size_t end = from_.find_first_of(":)", at_);
    const std::string_view flags = from_.substr(at_ + 2, end == std::string_view::npos ? end : end - at_ - 2);
    if (end == std::string_view::npos || flags.find_first_not_of("ix-") != std::string_view::npos)
      unsupported("(?" + std::string(flags));
    copy(end + 1 - at_);
  }

  // X{1,3}. A + behind it is possessive for PCRE2, a second repetition for Oniguruma.
  void interval() {
    const std::size_t close = from_.find('}', at_);
    if (close != std::string_view::npos && from_.substr(close + 1, 1) == "+") unsupported("X{...}+");
    copy(1);
  }

  std::string_view from_;
  std::size_t at_ = 0;
  std::string to_;
};

}  // namespace

std::string pcre2_syntax(std::string_view oniguruma) { return Rewriter(oniguruma).rewritten(); }

std::string literal_syntax(std::string_view text) {
  std::string expression;
  for (const char byte : text) {
    if (std::ispunct(static_cast<unsigned char>(byte)) != 0) expression += '\\';
    expression += byte;
  }
  return expression;
}

}  // namespace phasor::text
