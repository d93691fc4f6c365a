// JSON from unknown sources, parsed strictly: text that is not JSON, nests too deep or repeats a key is refused.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/core/check.h"

namespace phasor {

using Json = nlohmann::json;

// The value as it would be written, in ASCII, cut to a readable length.
inline std::string json_text(const Json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

// Parses one object. Errors read "[function] name: ...".
inline Json parse_json_object(std::string_view text, const char* function, std::string_view name) {
  constexpr int kDeepest = 64;
  // The parser takes it for the end, whatever follows.
  PHASOR_CHECK(text.find('\0') == std::string_view::npos, function, name,
               ": not JSON, has a byte 0, expected an object");
  std::vector<std::set<std::string>> keys;  // of every object that is still open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    PHASOR_CHECK(depth <= kDeepest, function, name, ": nested deeper than ", kDeepest, ", expected less");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key)
      PHASOR_CHECK(keys.back().insert(value.get_ref<const std::string&>()).second, function, name, ": the key ",
                   json_text(value), " is given twice, expected once");
    return true;
  };
  Json result;
  try {
    result = Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    const std::string_view before = text.substr(0, error.byte > 0 ? error.byte - 1 : 0);
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    fail(function, name, ": not JSON at line ", line, ", column ", column, ", expected an object");
  } catch (const Json::out_of_range&) {
    fail(function, name, ": a number too large to be kept, expected less than 1.8e308");
  }
  PHASOR_CHECK(result.is_object(), function, name, ": ", json_text(result), ", expected an object");
  return result;
}

}  // namespace phasor
