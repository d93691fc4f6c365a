#include "phasor/layers/initial_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "phasor/core/random.h"

namespace phasor {

Weight InitialValues::weight(const char* name, std::vector<std::int64_t> shape, std::int64_t inputs) {
  Weight weight = Weight::without_values(name, std::move(shape));
  if (init_ != Init::zeros) fill(weight.value(), inputs);
  return weight;
}

Weight InitialValues::normal_weight(const char* name, std::vector<std::int64_t> shape, float deviation) {
  Weight weight = Weight::without_values(name, std::move(shape));
  if (init_ != Init::zeros) fill_normal(weight.value(), deviation);
  return weight;
}

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
