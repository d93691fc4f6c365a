#include "expressions.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

namespace phasor::text::jinja {
namespace {

using Kind = Token::Kind;

constexpr int kDeepestTree = 300;

// Expressions, from those that bind least to those that bind most.
class ExpressionParser {
 public:
  explicit ExpressionParser(Tokens& tokens) : tokens_(tokens) {}

  Expression expression() {
    const Depth depth(*this);
    Expression value = any_of();
    while (tokens_.peek().kind == Kind::name && tokens_.peek().text == "if") {
      const std::size_t line = tokens_.take().line;
      Expression condition = any_of();
      // What is not there is written as nothing.
      Expression otherwise =
          tokens_.take_word("else") ? expression() : Expression{.line = line, .value = Json(std::string())};
      value = checked({.kind = Expression::Kind::condition,
                       .line = line,
                       .parts = {std::move(condition), std::move(value), std::move(otherwise)}});
    }
    return value;
  }

  // Without "if", which a loop has behind it.
  Expression any_of() {
    return words({"or"}, [&] { return words({"and"}, [&] { return negation(); }); });
  }

 private:
  struct Depth {
    explicit Depth(ExpressionParser& parser) : depth(parser.depth_) {
      if (++depth > kDeepest) parser.tokens_.refuse("fewer expressions in one another");
    }
    ~Depth() { depth--; }
    int& depth;
  };

  // Chains, too, make trees deep.
  static Expression checked(Expression made) {
    for (const Expression& part : made.parts) made.depth = std::max(made.depth, part.depth + 1);
    if (made.depth > kDeepestTree) throw Refused{made.line, "a longer expression, expected less"};
    return made;
  }
  static Expression operation(std::size_t line, std::string name, std::vector<Expression> parts) {
    return checked(
        {.kind = Expression::Kind::operation, .line = line, .name = std::move(name), .parts = std::move(parts)});
  }

  template <class Inner>
  Expression left_to_right(Kind kind, std::initializer_list<const char*> names, const Inner& inner) {
    Expression left = inner();
    for (bool found = true; found;) {
      found = false;
      for (const char* name : names)
        if (tokens_.next_is(kind, name)) {
          const std::size_t line = tokens_.take().line;
          Expression right = inner();
          left = operation(line, name, {std::move(left), std::move(right)});
          found = true;
        }
    }
    return left;
  }
  template <class Inner>
  Expression words(std::initializer_list<const char*> names, const Inner& inner) {
    return left_to_right(Kind::name, names, inner);
  }
  template <class Inner>
  Expression symbols(std::initializer_list<const char*> names, const Inner& inner) {
    return left_to_right(Kind::symbol, names, inner);
  }

  Expression negation() {
    const Depth depth(*this);
    if (!tokens_.next_is(Kind::name, "not")) return comparison();
    const std::size_t line = tokens_.take().line;
    return operation(line, "not", {negation()});
  }

  std::string comparison_name() {
    for (const char* name : {"==", "!=", "<=", ">=", "<", ">"})
      if (tokens_.take_symbol(name)) return name;
    if (tokens_.take_word("in")) return "in";
    const bool not_in = tokens_.next_is(Kind::name, "not") && tokens_.peek(1).text == "in";
    if (!not_in) return "";
    tokens_.take(), tokens_.take();
    return "not in";
  }
  Expression comparison() {
    Expression left = sum();
    const std::size_t line = tokens_.peek().line;
    const std::string name = comparison_name();
    if (name.empty()) return left;
    left = operation(line, name, {std::move(left), sum()});
    if (!comparison_name().empty()) throw Refused{line, "a chain of comparisons, expected one"};
    return left;
  }

  Expression sum() {
    return symbols({"+", "-"}, [&] { return symbols({"~"}, [&] { return product(); }); });
  }
  Expression product() {
    return symbols({"*", "//", "%"}, [&] { return sign(); });
  }
  Expression sign() {
    const Depth depth(*this);
    if (!tokens_.next_is(Kind::symbol, "-")) return with_filters(with_members(primary()));
    const std::size_t line = tokens_.take().line;
    return with_filters(operation(line, "-", {sign()}));
  }

  Expression with_members(Expression value) {
    while (true) {
      const std::size_t line = tokens_.peek().line;
      if (tokens_.take_symbol(".")) {
        Expression key{.line = line, .value = Json(tokens_.expect(Kind::name, "a name").text)};
        value = checked({.kind = Expression::Kind::member, .line = line, .parts = {std::move(value), std::move(key)}});
      } else if (tokens_.take_symbol("[")) {
        value = subscript(line, std::move(value));
      } else if (tokens_.next_is(Kind::symbol, "(")) {
        value = with_arguments({.kind = Expression::Kind::call, .line = line, .parts = {std::move(value)}});
      } else {
        return value;
      }
    }
  }

  Expression subscript(std::size_t line, Expression value) {
    const auto bound = [&]() -> Expression {
      const bool none = tokens_.next_is(Kind::symbol, ":") || tokens_.next_is(Kind::symbol, "]");
      return none ? Expression{.line = line} : expression();
    };
    std::vector<Expression> parts{std::move(value), bound()};
    bool is_slice = false;
    while (parts.size() < 4 && tokens_.take_symbol(":")) {
      is_slice = true;
      parts.push_back(bound());
    }
    tokens_.expect_symbol("]");
    if (is_slice) parts.resize(4, Expression{.line = line});
    const auto kind = is_slice ? Expression::Kind::slice : Expression::Kind::member;
    return checked({.kind = kind, .line = line, .parts = std::move(parts)});
  }

  // Of a call, a filter or a test, behind its other parts.
  Expression with_arguments(Expression call) {
    tokens_.expect_symbol("(");
    while (!tokens_.take_symbol(")")) {
      const bool named =
          tokens_.peek().kind == Kind::name && tokens_.peek(1).text == "=" && tokens_.peek(1).kind == Kind::symbol;
      if (!named && !call.keywords.empty()) tokens_.refuse("an argument with its name");
      if (named) call.keywords.push_back(tokens_.take().text), tokens_.take();
      call.parts.push_back(expression());
      if (!tokens_.next_is(Kind::symbol, ")")) tokens_.expect_symbol(",");
    }
    return checked(std::move(call));
  }

  Expression with_filters(Expression value) {
    while (true) {
      const std::size_t line = tokens_.peek().line;
      if (tokens_.take_symbol("|")) {
        const std::string name = tokens_.expect(Kind::name, "a filter").text;
        value = checked({.kind = Expression::Kind::filter, .line = line, .name = name, .parts = {std::move(value)}});
        if (tokens_.next_is(Kind::symbol, "(")) value = with_arguments(std::move(value));
      } else if (tokens_.take_word("is")) {
        value = test(line, std::move(value));
      } else if (tokens_.next_is(Kind::symbol, "(") || tokens_.next_is(Kind::symbol, ".") ||
                 tokens_.next_is(Kind::symbol, "[")) {
        tokens_.refuse("brackets around what has a filter or a test");
      } else {
        return value;
      }
    }
  }

  Expression test(std::size_t line, Expression value) {
    const bool negated = tokens_.take_word("not");
    Expression found{.kind = Expression::Kind::test,
                     .line = line,
                     .name = tokens_.expect(Kind::name, "a test").text,
                     .parts = {std::move(value)}};
    const Token& next = tokens_.peek();
    if (tokens_.next_is(Kind::symbol, "("))
      found = with_arguments(std::move(found));
    else if (next.kind == Kind::string || next.kind == Kind::integer)
      found.parts.push_back(with_members(primary()));
    found = checked(std::move(found));
    return negated ? operation(line, "not", {std::move(found)}) : found;
  }

  Expression primary() {
    const Depth depth(*this);
    const std::size_t line = tokens_.peek().line;
    switch (tokens_.peek().kind) {
      case Kind::string:
        return {.line = line, .value = Json(strings())};
      case Kind::integer:
        return {.line = line, .value = Json(std::stoll(tokens_.take().text))};
      case Kind::name:
        return name_or_constant();
      default:
        break;
    }
    if (tokens_.take_symbol("[")) return list(line);
    if (tokens_.take_symbol("{")) return dict(line);
    if (!tokens_.take_symbol("(")) tokens_.refuse("a value");
    Expression value = expression();
    if (tokens_.take_symbol(",")) return list(line, std::move(value));
    tokens_.expect_symbol(")");
    return value;
  }

  // Strings side by side are one.
  std::string strings() {
    std::string text;
    while (tokens_.peek().kind == Kind::string) text += tokens_.take().text;
    return text;
  }
  Expression name_or_constant() {
    const Token token = tokens_.take();
    const std::string& name = token.text;
    if (name == "true" || name == "True") return {.line = token.line, .value = Json(true)};
    if (name == "false" || name == "False") return {.line = token.line, .value = Json(false)};
    if (name == "none" || name == "None") return {.line = token.line};
    return {.kind = Expression::Kind::name, .line = token.line, .name = name};
  }
  // Also a tuple, behind its first value.
  Expression list(std::size_t line, std::optional<Expression> first = {}) {
    Expression made{.kind = Expression::Kind::list, .line = line};
    const char* end = first ? ")" : "]";
    if (first) made.parts.push_back(std::move(*first));
    while (!tokens_.take_symbol(end)) {
      made.parts.push_back(expression());
      if (!tokens_.next_is(Kind::symbol, end)) tokens_.expect_symbol(",");
    }
    return checked(std::move(made));
  }
  Expression dict(std::size_t line) {
    Expression made{.kind = Expression::Kind::dict, .line = line};
    while (!tokens_.take_symbol("}")) {
      made.parts.push_back(expression());
      tokens_.expect_symbol(":");
      made.parts.push_back(expression());
      if (!tokens_.next_is(Kind::symbol, "}")) tokens_.expect_symbol(",");
    }
    return checked(std::move(made));
  }

  Tokens& tokens_;
  int depth_ = 0;
};

}  // namespace

Expression parse_expression(Tokens& tokens) { return ExpressionParser(tokens).expression(); }

Expression parse_unconditional(Tokens& tokens) { return ExpressionParser(tokens).any_of(); }

}  // namespace phasor::text::jinja
