#include "json.h"

#include <set>
#include <string>
#include <vector>

#include "phasor/core/check.h"

namespace phasor {

Json parse_json_object(const char* function, std::string_view text) {
  constexpr int kDeepest = 64;
  std::vector<std::set<std::string>> keys;  // of every object that is still open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    PHASOR_CHECK(depth <= kDeepest, function, "config: nested deeper than ", kDeepest, ", expected a config.json");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      PHASOR_CHECK(keys.back().insert(name).second, function, name, ": given twice, expected once");
    }
    return true;
  };
  Json result;
  try {
    result = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    fail(function, "config: not JSON, ", error.what());
  }
  PHASOR_CHECK(result.is_object(), function, "config: ", json_kind(result), ", expected an object");
  return result;
}

std::string_view json_kind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "true or false";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "an object";
    default:
      return "a number";
  }
}

std::string json_text(const Json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace phasor
