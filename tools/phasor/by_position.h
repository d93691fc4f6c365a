// How a model does along a row, in few lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phasor/training/evaluation.h"

namespace phasor::tool {

struct PositionGroup {
  std::string positions;  // "128-255"
  std::int64_t counted = 0;
  double loss = 0.0, accuracy = 0.0;  // means
};

// Neighbouring positions are put together, so that there are at most 16 groups.
std::vector<PositionGroup> by_position(const Evaluation& found);

}  // namespace phasor::tool
