// The arithmetic of one AdamW step on a part of a weight.
#pragma once

#include <cstdint>

namespace phasor::detail {

// The numbers of a step, rounded to float once.
struct AdamWStep {
  float keep;  // 1 - lr decay
  float gradient_scale;
  float from_gradient;  // 1 - beta1
  float beta2, from_square;
  float step_size;        // lr / (1 - beta1^t)
  float root_correction;  // sqrt(1 - beta2^t)
  float eps;
};

struct AdamWPart {
  float *value, *gradient, *mean, *square;  // the gradient is zero afterwards
  std::int64_t count;
};

void adamw_part(const AdamWStep& step, const AdamWPart& part);

}  // namespace phasor::detail
