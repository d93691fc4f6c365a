#include "parser.h"

#include <initializer_list>
#include <utility>

#include "expressions.h"

namespace phasor::text::jinja {
namespace {

using Kind = Token::Kind;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(read_tokens(source)) {}

  std::vector<Statement> run() {
    std::vector<Statement> found = statements({});
    if (tokens_.peek().kind != Kind::end) tokens_.refuse("a statement");
    return found;
  }

 private:
  bool at_one_of(std::initializer_list<const char*> words) const {
    if (tokens_.peek().kind != Kind::statement || tokens_.peek(1).kind != Kind::name) return false;
    for (const char* word : words)
      if (tokens_.peek(1).text == word) return true;
    return false;
  }

  // Up to a statement that begins with one of the words.
  std::vector<Statement> statements(std::initializer_list<const char*> ends) {
    if (++depth_ > kDeepest) tokens_.refuse("fewer statements in one another");
    std::vector<Statement> found;
    while (tokens_.peek().kind != Kind::end && !at_one_of(ends)) found.push_back(statement());
    depth_--;
    return found;
  }
  void end(const char* word) {
    tokens_.expect(Kind::statement, word);
    if (!tokens_.take_word(word)) tokens_.refuse(word);
    end_statement();
  }
  void end_statement() { tokens_.expect(Kind::end_statement, "%}"); }

  Statement statement() {
    Token token = tokens_.take();
    Statement made{.line = token.line};
    if (token.kind == Kind::text) {
      made.name = std::move(token.text);
      return made;
    }
    if (token.kind == Kind::print) {
      made.kind = Statement::Kind::print;
      made.expressions.push_back(parse_expression(tokens_));
      tokens_.expect(Kind::end_print, "}}");
      return made;
    }
    read(tokens_.expect(Kind::name, "a statement").text, made);
    return made;
  }

  void read(const std::string& word, Statement& made) {
    if (word == "if") return condition(made);
    if (word == "for") return loop(made);
    if (word == "set") return set(made);
    if (word == "macro") return macro(made);
    if (word == "generation") {
      made.kind = Statement::Kind::block;
      end_statement();
      made.body = statements({"endgeneration"});
      return end("endgeneration");
    }
    if (word != "break" && word != "continue")
      throw Refused{made.line,
                    "the statement " + word + ", expected if, for, set, macro, generation, break or continue"};
    made.kind = word == "break" ? Statement::Kind::stop : Statement::Kind::next;
    if (loops_ == 0) throw Refused{made.line, word + " outside of a loop"};
    end_statement();
  }

  // Behind "if" or "elif".
  void condition(Statement& made) {
    made.kind = Statement::Kind::condition;
    made.expressions.push_back(parse_expression(tokens_));
    end_statement();
    made.body = statements({"elif", "else", "endif"});
    if (!at_one_of({"elif"})) {
      made.otherwise = otherwise({"endif"});
      return end("endif");
    }
    tokens_.take();
    Statement second{.line = tokens_.take().line};
    if (++depth_ > kDeepest) tokens_.refuse("fewer cases");
    condition(second);
    depth_--;
    made.otherwise.push_back(std::move(second));
  }
  std::vector<Statement> otherwise(std::initializer_list<const char*> ends) {
    if (!at_one_of({"else"})) return {};
    end("else");
    return statements(ends);
  }

  void loop(Statement& made) {
    made.kind = Statement::Kind::loop;
    do made.names.push_back(tokens_.expect(Kind::name, "the name of a variable").text);
    while (tokens_.take_symbol(","));
    if (!tokens_.take_word("in")) tokens_.refuse("in");
    made.expressions.push_back(parse_unconditional(tokens_));
    if (tokens_.take_word("if")) made.expressions.push_back(parse_expression(tokens_));
    end_statement();
    loops_++;
    made.body = statements({"else", "endfor"});
    loops_--;
    made.otherwise = otherwise({"endfor"});
    end("endfor");
  }

  void set(Statement& made) {
    made.kind = Statement::Kind::set;
    made.names.push_back(tokens_.expect(Kind::name, "the name of a variable").text);
    if (tokens_.take_symbol(".")) made.names.push_back(tokens_.expect(Kind::name, "a name").text);
    if (tokens_.take_symbol("=")) {
      made.expressions.push_back(parse_expression(tokens_));
      return end_statement();
    }
    if (made.names.size() > 1) tokens_.refuse("=");
    made.kind = Statement::Kind::set_text;
    end_statement();
    made.body = statements({"endset"});
    end("endset");
  }

  void macro(Statement& made) {
    made.kind = Statement::Kind::macro;
    made.name = tokens_.expect(Kind::name, "the name of the macro").text;
    tokens_.expect_symbol("(");
    while (!tokens_.take_symbol(")")) {
      made.names.push_back(tokens_.expect(Kind::name, "a parameter").text);
      if (tokens_.take_symbol("="))
        made.expressions.push_back(parse_expression(tokens_));
      else if (!made.expressions.empty())
        tokens_.refuse("a default");
      if (!tokens_.next_is(Kind::symbol, ")")) tokens_.expect_symbol(",");
    }
    end_statement();
    const int loops = std::exchange(loops_, 0);
    made.body = statements({"endmacro"});
    loops_ = loops;
    end("endmacro");
  }

  Tokens tokens_;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

std::vector<Statement> parse(std::string_view source) { return Parser(source).run(); }

}  // namespace phasor::text::jinja
