#include "config_json.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "phasor/core/check.h"

namespace phasor {

Json parse_json_object(std::string_view text) {
  constexpr int kDeepest = 64;
  std::vector<std::set<std::string>> keys;  // of every object that is still open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    PHASOR_CHECK(depth <= kDeepest, kConfigReader, "config: nested deeper than ", kDeepest, ", expected a config.json");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      PHASOR_CHECK(keys.back().insert(name).second, kConfigReader, name, ": given twice, expected once");
    }
    return true;
  };
  Json result;
  try {
    result = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    fail(kConfigReader, "config: not JSON, ", error.what());
  }
  PHASOR_CHECK(result.is_object(), kConfigReader, "config: ", json_text(result), ", expected an object");
  return result;
}

std::string json_text(const Json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

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
