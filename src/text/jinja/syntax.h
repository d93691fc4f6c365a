// Jinja templates as trees: the part of the language that templates of chats are written in.
//
// Values are Json; one that is not defined is the discarded Json. What a template asks for and is not here is Refused.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "json/strict_json.h"

namespace phasor::text::jinja {

struct Refused {
  std::size_t line = 0;
  std::string text{};  // what was found, what was expected
};

struct Expression {
  enum class Kind {
    literal,    // value
    name,       // name
    list,       // parts
    dict,       // keys and values in turns
    member,     // of parts[0], under the key parts[1]
    slice,      // of parts[0], from parts[1] to parts[2] in steps of parts[3]
    call,       // parts[0] with the arguments behind it
    filter,     // name, of parts[0] with the arguments behind it
    test,       // name, of parts[0] with the arguments behind it
    operation,  // name, of one part or two
    condition,  // parts[1] if parts[0] else parts[2]
  };
  Kind kind = Kind::literal;
  std::size_t line = 0;
  std::string name{};
  Json value{};
  std::vector<Expression> parts{};
  std::vector<std::string> keywords{};  // of the last arguments of a call
  int depth = 1;                        // how many expressions are in one another
};

struct Statement {
  enum class Kind {
    text,       // name
    print,      // expressions[0]
    condition,  // if expressions[0]: body, else: otherwise
    loop,       // names in expressions[0], if expressions[1]: body; without any: otherwise
    set,        // names[0], or its member names[1]: expressions[0]
    set_text,   // names[0]: what body writes
    macro,      // name with parameters names, of which the last have the defaults expressions: body
    block,      // body
    next,
    stop,  // of the loop
  };
  Kind kind = Kind::text;
  std::size_t line = 0;
  std::string name{};
  std::vector<std::string> names{};
  std::vector<Expression> expressions{};
  std::vector<Statement> body{}, otherwise{};
};

inline Json undefined() { return Json(Json::value_t::discarded); }

}  // namespace phasor::text::jinja
