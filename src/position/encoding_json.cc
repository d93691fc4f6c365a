#include "encoding_json.h"

namespace phasor {

std::string encoding_to_json(const EncodingConfig& config) {
  OrderedJson named{{"name", config.name()}};
  named.update(OrderedJson::parse(encoding(config.name()).to_json(config)));
  return named.dump();
}

EncodingConfig encoding_from_json(std::string_view json, std::string_view source) {
  constexpr const char* kName = "encoding_from_json";
  Json settings = parse_json_object(json, kName, source);
  const auto name = settings.find("name");
  PHASOR_CHECK(name != settings.end() && name->is_string(), kName, source, ": no name, expected that of an encoding");
  const Encoding& row = encoding(name->get<std::string>());
  settings.erase(name);
  return row.from_json(settings.dump(), source);
}

}  // namespace phasor
