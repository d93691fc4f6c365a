// The settings of an encoding as JSON: what a row of the registry needs for it, once the settings list their fields.
#pragma once

#include <string>
#include <string_view>

#include "json/fields.h"
#include "phasor/position/encoding.h"

namespace phasor {

template <class Settings>
std::string settings_to_json(const EncodingConfig& config) {
  return fields_to_json(config.as<Settings>()).dump();
}

template <class Settings>
EncodingConfig settings_from_json(std::string_view json, std::string_view name) {
  constexpr const char* kName = "encoding_from_json";
  return fields_from_json<Settings>(parse_json_object(json, kName, name), kName, std::string(name));
}

}  // namespace phasor
