// A Jinja template as tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "syntax.h"

namespace phasor::text::jinja {

struct Token {
  enum class Kind { text, print, end_print, statement, end_statement, name, string, integer, symbol, end };
  Kind kind = Kind::end;
  std::string text{};
  std::size_t line = 1;
};

// With trim_blocks and lstrip_blocks, as transformers reads templates: a statement or comment takes the newline behind
// it and the blanks before it on its line. Comments are left out. The last token is an end.
std::vector<Token> read_tokens(std::string_view source);

}  // namespace phasor::text::jinja
