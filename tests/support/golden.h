// The numbers in tests/golden, made by transformers itself (make goldens).
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/source_folder.h"

namespace phasor {

inline nlohmann::json read_golden(const char* name) {
  std::ifstream file(in_source_folder(std::string("tests/golden/") + name));
  if (!file) throw std::runtime_error(std::string("tests/golden/") + name + " is missing");
  return nlohmann::json::parse(file);
}

inline const nlohmann::json& rope_goldens() {
  static const nlohmann::json goldens = read_golden("rope.json");
  return goldens;
}

inline std::vector<float> floats(const nlohmann::json& list) {
  std::vector<float> values;
  for (const auto& value : list) values.push_back(static_cast<float>(value.get<double>()));
  return values;
}

}  // namespace phasor
