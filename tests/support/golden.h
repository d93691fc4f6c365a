// The numbers in tests/golden, made by transformers itself (make goldens).
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace phasor {

inline const nlohmann::json& rope_goldens() {
  static const nlohmann::json goldens = [] {
    std::ifstream file(PHASOR_SOURCE_DIR "/tests/golden/rope.json");
    if (!file) throw std::runtime_error("tests/golden/rope.json is missing");
    return nlohmann::json::parse(file);
  }();
  return goldens;
}

inline std::vector<float> floats(const nlohmann::json& list) {
  std::vector<float> values;
  for (const auto& value : list) values.push_back(static_cast<float>(value.get<double>()));
  return values;
}

}  // namespace phasor
