#include "scaling_json.h"

#include <algorithm>
#include <string>

#include "phasor/core/check.h"
#include "phasor/position/hugging_face.h"

namespace phasor {

void read_scaling_key(const RopeKey& key, const Json& value, RopeScaling& scaling) {
  if (value.is_null()) {  // not given; but null means false for truncate and fails for the original length
    if (key.name == "truncate") fail_type(key.name, value, "true or false");
    if (key.name == "original_max_position_embeddings") fail_type(key.name, value, "a whole number");
    return;
  }
  struct Read {
    std::string_view name;
    const Json& value;
    RopeScaling& scaling;
    void operator()(std::optional<double> RopeScaling::*member) { scaling.*member = to_number(name, value); }
    void operator()(std::optional<std::int64_t> RopeScaling::*member) { scaling.*member = to_integer(name, value); }
    void operator()(std::optional<bool> RopeScaling::*member) { scaling.*member = to_bool(name, value); }
    void operator()(std::vector<double> RopeScaling::*member) {
      scaling.*member = to_list<double>(name, value, "a list of numbers", to_number);
    }
  };
  std::visit(Read{key.name, value, scaling}, key.member);
}

RopeScaling read_rope_scaling(std::string_view json, std::int64_t max_position_embeddings) {
  constexpr const char* kName = "read_rope_scaling";
  const Json settings = parse_json_object(json, kName, "scaling");
  RopeScaling scaling;
  const char* type_key = settings.contains("rope_type") ? "rope_type" : "type";
  if (settings.contains(type_key)) scaling.type = to_string(type_key, settings[type_key]);
  const RopeType& type = rope_type(scaling.type);
  for (const auto& [name, value] : settings.items()) {
    if (name == "rope_type" || name == "type") continue;
    const auto* key = std::ranges::find(kRopeKeys, name, &RopeKey::name);
    PHASOR_CHECK(key != kRopeKeys.end(), kName, name, ": ", json_text(value),
                 ", expected only settings of a scaling: rope_type, factor, ...");
    read_scaling_key(*key, value, scaling);
  }
  auto& original = scaling.original_max_position_embeddings;
  const auto uses = [](auto keys) { return std::ranges::count(keys, "original_max_position_embeddings") != 0; };
  if (!original && max_position_embeddings >= 1 && (uses(type.required) || uses(type.optional)))
    original = max_position_embeddings;
  return scaling;
}

}  // namespace phasor
