#include "builtins.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>
#include <utility>

#include "../characters.h"
#include "../utf8.h"

namespace phasor::text::jinja {
namespace {

[[noreturn]] void refuse(std::size_t line, const std::string& found, const std::string& expected) {
  throw Refused{line, found + ", expected " + expected};
}

std::string kind_of(const Json& value) {
  if (value.is_discarded()) return "what is not defined";
  if (value.is_string()) return "text";
  if (value.is_object()) return "a dict";
  if (value.is_array()) return "a list";
  if (value.is_binary()) return "a function";
  return json_text(value);
}

// Python's str.isspace.
bool is_python_space(char32_t code) { return is_space(code) || (code >= 0x1C && code <= 0x1F); }

// Whether the character at text[at] goes away; a byte that is not UTF-8 stays.
bool is_stripped(std::string_view text, std::size_t at, const std::string* of) {
  if (of != nullptr) return of->find(text[at]) != std::string::npos;
  const std::size_t length = character_length(text[at]);
  if (static_cast<unsigned char>(text[at]) >= 0xF8 || at + length > text.size()) return false;
  return is_python_space(next_character(text, at));
}

// `of`: the characters that go away, in ASCII; without it, space.
std::string stripped(std::string_view text, bool left, bool right, const std::string* of, std::size_t line) {
  if (of != nullptr && !is_ascii(*of)) refuse(line, "strip of " + json_text(*of), "characters of ASCII");
  while (left && !text.empty() && is_stripped(text, 0, of))
    text.remove_prefix(of != nullptr ? 1 : character_length(text[0]));
  while (right && !text.empty()) {
    const std::size_t at = of != nullptr ? text.size() - 1 : previous_character(text, text.size());
    if (!is_stripped(text, at, of)) break;
    text = text.substr(0, at);
  }
  return std::string(text);
}

// Case is changed of ASCII alone.
std::string with_case(const std::string& name, const std::string& text, std::size_t line) {
  if (!is_ascii(text)) refuse(line, name + " of " + json_text(text), "a text of ASCII");
  std::string changed = text;
  bool first = true;
  for (char& c : changed) {
    const auto byte = static_cast<unsigned char>(c);
    const bool upper = name == "upper" || (first && name != "lower");
    c = static_cast<char>(upper ? std::toupper(byte) : std::tolower(byte));
    first = name == "title" && std::isalpha(byte) == 0;
  }
  return changed;
}

const Json& argument(const Arguments& arguments, std::size_t index, const std::string& of) {
  if (index >= arguments.values.size()) refuse(arguments.line, of + " without an argument", "one");
  return arguments.values[index];
}

void expect_arguments(const Arguments& arguments, std::size_t most, const std::string& of) {
  if (arguments.values.size() > most || !arguments.named.empty())
    refuse(arguments.line, of + " with more arguments", "at most " + std::to_string(most - 1));
}

constexpr std::size_t kAlways = std::string::npos;

// At most so often.
Json split(const std::string& text, const std::string& by, std::size_t times, std::size_t line) {
  if (by.empty()) refuse(line, "split by nothing", "a text");
  Json parts = Json::array();
  std::size_t begin = 0;
  for (std::size_t at; times-- > 0 && (at = text.find(by, begin)) != std::string::npos; begin = at + by.size())
    parts.push_back(text.substr(begin, at - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

// Texts can grow with each call.
constexpr std::size_t kMostBytes = std::size_t{1} << 24;

std::string replaced(const std::string& text, const std::string& what, const std::string& by, std::size_t line) {
  std::string made;
  const Json parts = split(text, what, kAlways, line);
  for (const Json& part : parts) {
    if (&part != &parts.front()) made += by;
    made += part.get_ref<const std::string&>();
    if (made.size() > kMostBytes) refuse(line, "replace, which makes more than 16 MiB", "less");
  }
  return made;
}

Json joined(const Arguments& arguments) {
  const Json& list = arguments.values[0];
  if (!list.is_array()) refuse(arguments.line, "join of " + kind_of(list), "a list");
  std::string text;
  for (const Json& each : list) {
    if (&each != &list.front() && arguments.values.size() > 1) text += text_of(arguments.values[1], arguments.line);
    text += written(each, arguments.line);
    if (text.size() > kMostBytes) refuse(arguments.line, "join, which makes more than 16 MiB", "less");
  }
  return text;
}

Json length(const Json& value, std::size_t line) {
  if (value.is_array() || value.is_object()) return value.size();
  const std::string& text = text_of(value, line);
  return std::ranges::count_if(text,
                               [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80 && c != '\xFF'; });
}

Json items(const Json& dict, const std::string& which) {
  Json list = Json::array();
  for (auto at = dict.begin(); at != dict.end(); ++at)
    list.push_back(which == "keys" ? Json(at.key()) : which == "values" ? *at : Json::array({at.key(), *at}));
  return list;
}

Json call_dict_method(const std::string& name, const Arguments& arguments) {
  const Json& dict = arguments.values[0];
  if (name == "get") {
    expect_arguments(arguments, 3, name);
    const auto found = dict.find(text_of(argument(arguments, 1, name), arguments.line));
    if (found != dict.end()) return *found;
    return arguments.values.size() > 2 ? arguments.values[2] : Json();
  }
  expect_arguments(arguments, 1, name);
  if (name != "items" && name != "keys" && name != "values")
    refuse(arguments.line, "the method " + name + " of a dict", "get, items, keys or values");
  return items(dict, name);
}

// The dicts of a list of which a test holds for the value under a key: selectattr('role', 'equalto', 'user').
Json selected(const std::string& name, const Arguments& arguments) {
  const Json& list = arguments.values[0];
  const std::string& key = text_of(argument(arguments, 1, name), arguments.line);
  if (!list.is_array() || !arguments.named.empty()) refuse(arguments.line, name + " of " + kind_of(list), "a list");
  Json kept = Json::array();
  for (const Json& each : list) {
    if (!each.is_object()) refuse(arguments.line, name + " of a list with " + kind_of(each), "dicts");
    Arguments test{arguments.line, {each.contains(key) ? each[key] : undefined()}, {}};
    for (std::size_t i = 3; i < arguments.values.size(); i++) test.values.push_back(arguments.values[i]);
    const bool holds = arguments.values.size() > 2 ? apply_test(text_of(arguments.values[2], arguments.line), test)
                                                   : is_true(test.values[0]);
    if (holds == (name == "selectattr")) kept.push_back(each);
  }
  return kept;
}

Json range(const Arguments& arguments) {
  constexpr std::int64_t kMost = 10000;
  std::vector<std::int64_t> bounds;
  for (const Json& each : arguments.values) {
    if (!each.is_number_integer()) refuse(arguments.line, "range of " + kind_of(each), "whole numbers");
    bounds.push_back(each);
  }
  if (bounds.size() == 1) bounds.insert(bounds.begin(), 0);
  if (bounds.size() == 2) bounds.push_back(1);
  if (bounds.size() != 3 || bounds[2] == 0) refuse(arguments.line, "range", "one to three numbers, and a step");
  Json list = Json::array();
  for (std::int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1]; i += bounds[2]) {
    if (static_cast<std::int64_t>(list.size()) == kMost)
      refuse(arguments.line, "a longer range", "at most 10000 numbers");
    list.push_back(i);
  }
  return list;
}

}  // namespace

const std::string& text_of(const Json& value, std::size_t line) {
  if (!value.is_string()) refuse(line, kind_of(value), "text");
  return value.get_ref<const std::string&>();
}

std::string written(const Json& value, std::size_t line) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  if (!value.is_number_integer()) refuse(line, kind_of(value) + " to be written", "text");
  return std::to_string(value.get<std::int64_t>());
}

bool is_true(const Json& value) {
  if (value.is_null() || value.is_discarded()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return value.is_structured() ? !value.empty() : value != 0;
}

bool equal(const Json& a, const Json& b) { return !a.is_discarded() && !b.is_discarded() && a == b; }

bool contains(const Json& list, const Json& value, std::size_t line) {
  if (list.is_discarded()) return false;
  if (list.is_string()) return list.get_ref<const std::string&>().find(text_of(value, line)) != std::string::npos;
  if (list.is_object()) return list.contains(text_of(value, line));
  if (!list.is_array()) refuse(line, "in " + kind_of(list), "a text, a list or a dict");
  return std::ranges::any_of(list, [&](const Json& each) { return equal(each, value); });
}

Json of_numbers(const std::string& name, const Json& left, const Json& right, std::size_t line) {
  constexpr std::int64_t kLargest = INT32_MAX;
  const auto number = [&](const Json& value) {
    if (!value.is_number_integer() || value > kLargest || value < -kLargest)
      throw Refused{line, name + " of " + json_text(value) + ", expected a number of 32 bits"};
    return value.get<std::int64_t>();
  };
  const std::int64_t a = number(left), b = number(right);
  if (name == "<") return a < b;
  if (name == "<=") return a <= b;
  if (name == ">") return a > b;
  if (name == ">=") return a >= b;
  if (name == "+") return a + b;
  if (name == "-") return a - b;
  if (name == "*") return a * b;
  if (b == 0) throw Refused{line, "a division by 0"};
  const std::int64_t rest = (a % b + b) % b;  // with the sign of b, as in Python
  return name == "%" ? rest : (a - rest) / b;
}

Json apply_filter(const std::string& name, const Arguments& arguments) {
  const std::size_t line = arguments.line;
  const Json& value = arguments.values[0];
  if (name == "default" || name == "d") {
    expect_arguments(arguments, 3, name);
    const bool of_false = arguments.values.size() > 2 && is_true(arguments.values[2]);
    return value.is_discarded() || (of_false && !is_true(value)) ? argument(arguments, 1, name) : value;
  }
  if (name == "join") return expect_arguments(arguments, 2, name), joined(arguments);
  if (name == "replace") return call_method(name, arguments);
  if (name == "selectattr" || name == "rejectattr") return selected(name, arguments);
  if (name == "trim") return stripped(written(value, line), true, true, nullptr, line);
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize")
    return with_case(name, text_of(value, line), line);
  if (name == "length" || name == "count") return length(value, line);
  if (name == "string") return written(value, line);
  if (name == "safe") return value;
  if (name == "items" && value.is_object()) return items(value, name);
  if (value.is_array()) {
    if (name == "list") return value;
    if (name == "first") return value.empty() ? undefined() : value.front();
    if (name == "last") return value.empty() ? undefined() : value.back();
  }
  refuse(line, "the filter " + name + " of " + kind_of(value),
         "trim, default, length, join, replace, upper, lower, title, capitalize, string, list, first, last, items, "
         "selectattr or rejectattr");
}

bool apply_test(const std::string& name, const Arguments& arguments) {
  const Json& value = arguments.values[0];
  if (name == "equalto" || name == "eq") return equal(value, argument(arguments, 1, name));
  if (name == "in") return contains(argument(arguments, 1, name), value, arguments.line);
  expect_arguments(arguments, 1, name);
  if (name == "defined") return !value.is_discarded();
  if (name == "undefined") return value.is_discarded();
  if (name == "none") return value.is_null();
  if (name == "string") return value.is_string();
  if (name == "mapping") return value.is_object();
  if (name == "iterable" || name == "sequence")
    return value.is_structured() || value.is_string() || value.is_discarded();
  if (name == "boolean") return value.is_boolean();
  if (name == "number") return value.is_number() || value.is_boolean();
  if (name == "integer") return value.is_number_integer();
  if (name == "true" || name == "false") return value.is_boolean() && value.get<bool>() == (name == "true");
  refuse(arguments.line, "the test " + name,
         "defined, undefined, none, string, mapping, iterable, sequence, boolean, number, integer, true, false, "
         "equalto or in");
}

Json call_method(const std::string& name, const Arguments& arguments) {
  const std::size_t line = arguments.line;
  if (arguments.values[0].is_object()) return call_dict_method(name, arguments);
  const std::string& text = text_of(arguments.values[0], line);
  const auto part = [&](std::size_t index) -> const std::string& {
    return text_of(argument(arguments, index, name), line);
  };
  expect_arguments(arguments, name == "replace" || name == "split" ? 3 : 2, name);
  if (name == "replace") return replaced(text, part(1), part(2), line);
  if (name == "split") {
    const Json times = arguments.values.size() > 2 ? arguments.values[2] : Json(kAlways);
    if (!times.is_number_integer()) refuse(line, "split " + kind_of(times) + " times", "a number");
    return split(text, part(1), times.get<std::size_t>(), line);  // a negative one: always
  }
  if (name == "startswith") return text.starts_with(part(1));
  if (name == "endswith") return text.ends_with(part(1));
  if (name == "join") return joined({line, {argument(arguments, 1, name), text}, {}});
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return stripped(text, name != "rstrip", name != "lstrip", arguments.values.size() > 1 ? &part(1) : nullptr, line);
  expect_arguments(arguments, 1, name);
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize") return with_case(name, text, line);
  refuse(line, "the method " + name + " of a text",
         "strip, lstrip, rstrip, split, startswith, endswith, replace, join, upper, lower, title or capitalize");
}

bool is_function(const std::string& name) {
  return name == "range" || name == "namespace" || name == "dict" || name == "raise_exception" ||
         name == "strftime_now";
}

Json call_function(const std::string& name, const Arguments& arguments) {
  if (name == "range") return range(arguments);
  if (name == "namespace" || name == "dict") {
    if (!arguments.values.empty()) refuse(arguments.line, name + " with arguments that have no name", "name=value");
    return Json(arguments.named);
  }
  if (name == "raise_exception")
    throw Refused{arguments.line, "the template refuses these messages: " + json_text(argument(arguments, 0, name))};
  refuse(arguments.line, "the function " + name, "range, namespace, dict, raise_exception, strftime_now or a macro");
}

}  // namespace phasor::text::jinja
