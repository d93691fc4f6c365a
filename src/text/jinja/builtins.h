// Filters, tests, functions and methods of Jinja, on values. What is not here is Refused.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "syntax.h"

namespace phasor::text::jinja {

struct Arguments {
  std::size_t line = 0;
  std::vector<Json> values{};  // of a filter, a test or a method, the first is what it is applied to
  std::map<std::string, Json> named{};
};

// How a value is written, by Python's str.
std::string written(const Json& value, std::size_t line);
bool is_true(const Json& value);
bool equal(const Json& a, const Json& b);
bool contains(const Json& list, const Json& value, std::size_t line);
// An operator on whole numbers.
Json of_numbers(const std::string& name, const Json& left, const Json& right, std::size_t line);
// The text of a value that is one.
const std::string& text_of(const Json& value, std::size_t line);

Json apply_filter(const std::string& name, const Arguments& arguments);
bool apply_test(const std::string& name, const Arguments& arguments);
Json call_method(const std::string& name, const Arguments& arguments);
// strftime_now among them, which the evaluator calls itself.
bool is_function(const std::string& name);
Json call_function(const std::string& name, const Arguments& arguments);

}  // namespace phasor::text::jinja
