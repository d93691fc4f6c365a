#include "lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tokens.h"

namespace phasor::text::jinja {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";
constexpr std::array<std::string_view, 24> kSymbols{"//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~",
                                                    "[",  "]",  "(",  ")",  "{",  "}",  ">", "<", "=", ".", ":", "|"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Lines end with \n alone, and the last one without it.
std::string with_newlines(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); i++) {
    if (source[i] != '\r') text += source[i];
    if (source[i] == '\r' && (i + 1 == source.size() || source[i + 1] != '\n')) text += '\n';
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_newlines(source)) {}

  std::vector<Token> run() {
    while (true) {
      const std::size_t open = next_tag();
      add_text(open);
      if (open == source_.size()) break;
      move(open);
      tag();
    }
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void move(std::size_t to) {
    line_ += static_cast<std::size_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                 source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  void add(Token::Kind kind, std::string_view text) { tokens_.push_back({kind, std::string(text), line_}); }

  std::size_t next_tag() const {
    for (std::size_t i = at_; i + 1 < source_.size(); i++)
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    return source_.size();
  }

  // The text before a tag, without the space that the tag takes.
  void add_text(std::size_t end) {
    std::string_view text = rest().substr(0, end - at_);
    const char kind = end < source_.size() ? source_[end + 1] : '{';
    const char sign = end + 2 < source_.size() ? source_[end + 2] : ' ';
    if (end < source_.size() && sign == '-') {
      text = text.substr(0, text.find_last_not_of(kSpace) + 1);
    } else if (kind != '{' && sign != '+') {
      const std::size_t line = text.rfind('\n') + 1;
      const bool blank = text.find_first_not_of(kSpace, line) == std::string_view::npos;
      if (blank && (line > 0 || at_line_start_)) text = text.substr(0, line);
    }
    if (!text.empty()) add(Token::Kind::text, text);
  }

  void tag() {
    const char kind = source_[at_ + 1];
    move(at_ + 2);
    if (!rest().empty() && (rest()[0] == '-' || rest()[0] == '+') && kind != '#') move(at_ + 1);
    if (kind == '#') return comment();
    const bool prints = kind == '{';
    add(prints ? Token::Kind::print : Token::Kind::statement, "");
    while (!ends(prints ? "}}" : "%}")) inner_token();
    add(prints ? Token::Kind::end_print : Token::Kind::end_statement, "");
    close(!prints);
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) throw Refused{line_, "a comment without end, expected #}"};
    const bool signs = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    move(signs ? end - 1 : end);
    close(true);
  }

  // Whether the tag ends here; within brackets it does not.
  bool ends(std::string_view closing) {
    move(std::min(source_.find_first_not_of(kSpace, at_), source_.size()));
    if (rest().empty()) throw Refused{line_, "a tag without end, expected " + std::string(closing)};
    if (depth_ > 0) return false;
    const bool sign = rest()[0] == '-' || (rest()[0] == '+' && closing == "%}");
    return rest().starts_with(closing) || (sign && rest().substr(1).starts_with(closing));
  }

  // Behind the end of a tag, and behind the space that it takes.
  void close(bool takes_newline) {
    const char sign = rest()[0];
    std::size_t end = at_ + (sign == '-' || sign == '+' ? 3 : 2);
    if (sign == '-')
      end = std::min(source_.find_first_not_of(kSpace, end), source_.size());
    else if (sign != '+' && takes_newline && end < source_.size() && source_[end] == '\n')
      end++;
    move(end);
    at_line_start_ = source_[end - 1] == '\n';
  }

  void inner_token() {
    const char c = rest()[0];
    if (c == '"' || c == '\'') return string(c);
    if (is_digit(c)) return integer();
    if (begins_name(c)) {
      std::size_t end = at_;
      while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))) end++;
      add(Token::Kind::name, rest().substr(0, end - at_));
      return move(end);
    }
    if (c == ',') return symbol(",");
    const auto found = std::ranges::find_if(kSymbols, [&](std::string_view each) { return rest().starts_with(each); });
    if (found == kSymbols.end())
      throw Refused{line_,
                    "the character " + json_text(std::string(1, c)) + ", expected a name, a value or an operator"};
    symbol(*found);
  }

  void symbol(std::string_view text) {
    if (text == "(" || text == "[" || text == "{") depth_++;
    if ((text == ")" || text == "]" || text == "}") && depth_-- == 0)
      throw Refused{line_, std::string(text) + " without its beginning"};
    add(Token::Kind::symbol, text);
    move(at_ + text.size());
  }

  void integer() {
    constexpr std::size_t kMostDigits = 9;
    const std::size_t digits = std::min(rest().find_first_not_of("0123456789"), rest().size());
    const bool fraction = digits + 1 < rest().size() && rest()[digits] == '.' && is_digit(rest()[digits + 1]);
    if (digits > kMostDigits || fraction)
      throw Refused{line_,
                    "the number " + std::string(rest().substr(0, digits + 1)) + "..., expected a whole one below 10^9"};
    add(Token::Kind::integer, rest().substr(0, digits));
    move(at_ + digits);
  }

  void string(char quote) {
    std::string text;
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; i++) {
      if (source_[i] != '\\') {
        text += source_[i];
        continue;
      }
      constexpr std::string_view kEscapes = "nrt\\'\"", kMeant = "\n\r\t\\'\"";
      const std::size_t which = ++i < source_.size() ? kEscapes.find(source_[i]) : std::string_view::npos;
      if (which == std::string_view::npos)
        throw Refused{line_, "an escape in a text, expected one of \\n \\r \\t \\\\ \\' \\\""};
      text += kMeant[which];
    }
    if (i >= source_.size()) throw Refused{line_, std::string("a text without end, expected ") + quote};
    add(Token::Kind::string, text);
    move(i + 1);
  }

  std::string source_;
  std::vector<Token> tokens_{};
  std::size_t at_ = 0, line_ = 1;
  int depth_ = 0;  // open brackets
  bool at_line_start_ = true;
};

std::string shown(const Token& token) {
  switch (token.kind) {
    case Token::Kind::text:
      return "text";
    case Token::Kind::print:
      return "{{";
    case Token::Kind::end_print:
      return "}}";
    case Token::Kind::statement:
      return "{%";
    case Token::Kind::end_statement:
      return "%}";
    case Token::Kind::end:
      return "the end of the template";
    case Token::Kind::string:
      return json_text(token.text);
    default:
      return token.text;
  }
}

}  // namespace

void Tokens::refuse(const std::string& expected) const {
  throw Refused{peek().line, shown(peek()) + ", expected " + expected};
}

std::vector<Token> read_tokens(std::string_view source) { return Lexer(source).run(); }

}  // namespace phasor::text::jinja
