#include "phasor/core/weight.h"

#include <algorithm>
#include <utility>

namespace phasor {

Weight::Weight(std::string name, std::vector<std::int64_t> shape) : name_(std::move(name)), shape_(std::move(shape)) {
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

void list_weight(std::string_view prefix, Weight& weight, NamedWeights& weights) {
  weights.push_back({weight_path(prefix, weight.name()), &weight});
}

}  // namespace phasor
