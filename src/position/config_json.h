// Values of a config.json of the right type, or an error that names the key, the value and what was expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/strict_json.h"

namespace phasor {

inline constexpr const char* kConfigReader = "read_rope_config";  // the name in errors

// The value of a key; nullptr when the key is missing or null.
const Json* find(const Json& object, std::string_view key);

[[noreturn]] void fail_type(std::string_view key, const Json& value, std::string_view expected);
double to_number(std::string_view key, const Json& value);
std::int64_t to_integer(std::string_view key, const Json& value);
bool to_bool(std::string_view key, const Json& value);
std::string to_string(std::string_view key, const Json& value);

template <class Element, class Convert>
std::vector<Element> to_list(std::string_view key, const Json& value, std::string_view expected,
                             const Convert& convert) {
  if (!value.is_array()) fail_type(key, value, expected);
  std::vector<Element> list;
  for (const Json& element : value) list.push_back(convert(key, element));
  return list;
}

// The first of several names that is given.
std::optional<std::int64_t> integer_of(const Json& config, std::initializer_list<const char*> keys);

// A number whose null is not the same as its absence: null is refused.
std::optional<double> number_not_null(const Json& object, std::string_view key);

}  // namespace phasor
