#include "encoding_json.h"

#include <string>

#include "json/encoding_fields.h"

namespace phasor {

std::string encoding_to_json(const EncodingConfig& config) { return fields_to_json(config).dump(); }

EncodingConfig encoding_from_json(std::string_view json, std::string_view source) {
  constexpr const char* kName = "encoding_from_json";
  EncodingConfig config = NoneConfig{};
  read_fields(parse_json_object(json, kName, source), kName, std::string(source), config);
  return config;
}

}  // namespace phasor
