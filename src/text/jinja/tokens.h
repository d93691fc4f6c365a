// The tokens of a template, as a parser takes them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lexer.h"

namespace phasor::text::jinja {

constexpr int kDeepest = 100;  // expressions or statements in one another, in the source

// The tokens, from first to last.
class Tokens {
 public:
  using Kind = Token::Kind;

  explicit Tokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_.back(); }
  bool next_is(Kind kind, std::string_view text) const { return peek().kind == kind && peek().text == text; }
  bool take_if(Kind kind, std::string_view text) {
    const bool is = next_is(kind, text);
    if (is) take();
    return is;
  }
  bool take_symbol(std::string_view text) { return take_if(Kind::symbol, text); }
  bool take_word(std::string_view text) { return take_if(Kind::name, text); }
  Token expect(Kind kind, const char* what) {
    if (peek().kind != kind) refuse(what);
    return take();
  }
  void expect_symbol(const char* text) {
    if (!take_symbol(text)) refuse(text);
  }
  // Names the next token.
  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace phasor::text::jinja
