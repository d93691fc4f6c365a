#include "phasor/layers/initial_values.h"

#include <algorithm>
#include <cmath>

#include "phasor/core/random.h"

namespace phasor {

void InitialValues::fill(std::span<float> values, std::int64_t inputs) {
  if (init_ == Init::zeros) return;
  if (init_ == Init::normal) return fill_normal(values, 0.02f);
  const float bound = 1.0f / std::sqrt(static_cast<float>(std::max<std::int64_t>(inputs, 1)));
  Philox(seed_, next_stream_++).fill_uniform(values, -bound, bound);
}

void InitialValues::fill_normal(std::span<float> values, float deviation) {
  if (init_ == Init::zeros) return;
  Philox(seed_, next_stream_++).fill_normal(values, 0.0f, deviation);
}

}  // namespace phasor
