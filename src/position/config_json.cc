#include "config_json.h"

#include <cmath>
#include <string>

#include "phasor/core/check.h"

namespace phasor {

const Json* find(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void fail_type(std::string_view key, const Json& value, std::string_view expected) {
  fail(kConfigReader, key, ": ", json_text(value), ", expected ", expected);
}

double to_number(std::string_view key, const Json& value) {
  if (!value.is_number()) fail_type(key, value, "a number");
  return value.get<double>();
}

std::int64_t to_integer(std::string_view key, const Json& value) {
  constexpr double kLargest = 1e15;
  const bool whole = value.is_number() && std::floor(value.get<double>()) == value.get<double>();
  if (!whole || std::fabs(value.get<double>()) > kLargest) fail_type(key, value, "a whole number");
  return static_cast<std::int64_t>(value.get<double>());
}

bool to_bool(std::string_view key, const Json& value) {
  if (!value.is_boolean()) fail_type(key, value, "true or false");
  return value.get<bool>();
}

std::string to_string(std::string_view key, const Json& value) {
  if (!value.is_string()) fail_type(key, value, "a string");
  return value.get<std::string>();
}

std::optional<std::int64_t> integer_of(const Json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const Json* value = find(config, key)) return to_integer(key, *value);
  return std::nullopt;
}

std::optional<double> number_not_null(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  return to_number(key, *found);
}

}  // namespace phasor
