// What the kernel of cross-entropy is given: one row.
#pragma once

#include <cstdint>

namespace phasor::detail {

struct LossRow {
  const float* logits = nullptr;
  float* gradient = nullptr;  // null when not asked for
  std::int64_t classes = 0, target = 0;
  float scale = 0;  // of the gradient: 1 / counted rows
};

}  // namespace phasor::detail
