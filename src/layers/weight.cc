#include "phasor/layers/weight.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "phasor/core/random.h"

namespace phasor {

Weight::Weight(std::vector<std::int64_t> shape) : shape_(std::move(shape)) {
  PHASOR_CHECK(shape_.size() <= 2, "Weight", "shape: of rank ", shape_.size(), ", expected at most 2");
  value_ = Tensor<float, 1>({element_count(matrix_shape())});
}

Shape<2> Weight::matrix_shape() const {
  return {shape_.size() == 2 ? shape_[0] : 1, shape_.empty() ? 1 : shape_.back()};
}

std::span<float> Weight::gradient() {
  if (gradient_.size() != size()) gradient_ = Tensor<float, 1>({size()});
  return {gradient_.data(), static_cast<std::size_t>(size())};
}

void Weight::clear_gradient() { std::fill(gradient_.begin(), gradient_.end(), 0.0f); }

std::string weight_path(std::string_view prefix, std::string_view name) {
  std::string path(prefix);
  if (!path.empty()) path += '.';
  return path += name;
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
