// Input of the cross-entropy kernel: one row.
#pragma once

#include <cstdint>

namespace phasor::detail {

struct LossRow {
  const float* logits = nullptr;
  float* gradient = nullptr;  // null if not requested
  std::int64_t classes = 0, target = 0;
  float scale = 0;  // of the gradient: 1 / counted rows
};

}  // namespace phasor::detail
