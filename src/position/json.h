// JSON that comes from strangers.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace phasor {

using Json = nlohmann::json;

// Parses one object. Text that is not JSON, nests deeper than 64, or repeats a key is refused.
Json parse_json_object(const char* function, std::string_view text);

// The type of a value, for messages: "a string", "a list", ...
std::string_view json_kind(const Json& value);

// The value as it would be written, cut to a readable length.
std::string json_text(const Json& value);

}  // namespace phasor
