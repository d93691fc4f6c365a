// Where tokenizer.json has a pattern: {"String": "..."} or {"Regex": "..."}.
#pragma once

#include <stdexcept>
#include <string>

#include "json/fields.h"
#include "pattern.h"

namespace phasor::text {

inline Pattern read_pattern(FieldReader& reader) {
  FieldReader object = reader.object("pattern");
  std::optional<std::string> literal, regex;
  object("String", literal);
  object("Regex", regex);
  object.finish();
  if (literal.has_value() == regex.has_value()) reader.refuse_key("pattern", "one of String and Regex");
  if (literal && literal->empty()) object.refuse_key("String", "a text that is not empty");
  try {
    return Pattern(literal ? literal_syntax(*literal) : pcre2_syntax(*regex));
  } catch (const std::invalid_argument& error) {
    object.refuse_key(regex ? "Regex" : "String",
                      std::string("a regular expression that can be read: ") + error.what());
  }
}

}  // namespace phasor::text
