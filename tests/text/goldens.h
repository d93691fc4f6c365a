// tests/golden/tokenizers.json: small tokenizers of every kind, and what the package tokenizers makes of some texts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "phasor/text/tokenizer.h"
#include "support/golden.h"

namespace phasor {

inline const nlohmann::json& tokenizer_goldens() {
  static const nlohmann::json goldens = read_golden("tokenizers.json");
  return goldens;
}

inline const nlohmann::json& golden_tokenizer(const std::string& name) {
  for (const auto& each : tokenizer_goldens()["tokenizers"])
    if (each["name"] == name) return each;
  throw std::runtime_error("no golden tokenizer " + name);
}

inline Tokenizer tokenizer_of(const nlohmann::json& golden) {
  return Tokenizer::from_json(golden["tokenizer"].dump(), golden["name"].get<std::string>());
}

}  // namespace phasor
