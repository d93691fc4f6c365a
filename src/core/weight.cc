#include "phasor/core/weight.h"

#include <algorithm>
#include <utility>

namespace phasor {

Weight::Weight(std::string name, std::vector<std::int64_t> shape)
    : Weight(without_values(std::move(name), std::move(shape))) {
  value();
}

Weight Weight::without_values(std::string name, std::vector<std::int64_t> shape) {
  PHASOR_CHECK(shape.size() <= 2, "Weight", "shape: of rank ", shape.size(), ", expected at most 2");
  Weight weight;
  weight.name_ = std::move(name);
  weight.shape_ = std::move(shape);
  weight.size_ = element_count(weight.matrix_shape());
  return weight;
}

void Weight::check_float() const {
  PHASOR_CHECK(!is_bf16() && !is_f16(), "Weight", name_, is_bf16() ? ": kept in bf16" : ": kept in f16",
               ", expected floats, which training needs");
}

std::span<float> Weight::value() {
  check_float();
  if (value_.size() != size()) {
    value_ = Tensor<float, 1>({size()});
    if (floats_) std::copy_n(floats_.get(), size(), value_.data());
    floats_ = nullptr;
  }
  return {value_.data(), static_cast<std::size_t>(size())};
}

std::span<const float> Weight::value() const {
  check_float();
  if (floats_) return {floats_.get(), static_cast<std::size_t>(size())};
  PHASOR_CHECK(value_.size() == size(), "Weight", name_, ": has no values, expected those of a file");
  return {value_.data(), static_cast<std::size_t>(size())};
}

void Weight::drop_values() {
  floats_ = nullptr;
  bf16_ = nullptr;
  f16_ = nullptr;
  value_ = Tensor<float, 1>();
}

void Weight::keep(std::shared_ptr<const float> values) {
  drop_values();
  floats_ = std::move(values);
}

void Weight::keep(std::shared_ptr<const bf16> values) {
  drop_values();
  gradient_ = Tensor<float, 1>();
  bf16_ = std::move(values);
}

void Weight::keep(std::shared_ptr<const f16> values) {
  drop_values();
  gradient_ = Tensor<float, 1>();
  f16_ = std::move(values);
}

template <class T>
void Weight::round_to() {
  const std::span<const float> floats = std::as_const(*this).value();
  const auto rounded = std::make_shared<Tensor<T, 1>>(Shape<1>{size()});
  convert(floats, std::span(rounded->data(), floats.size()));
  keep(std::shared_ptr<const T>(rounded, rounded->data()));
}

void Weight::round_to_bf16() {
  if (is_f16()) {
    const std::shared_ptr<const f16> from = f16_;
    drop_values();
    convert(std::span(from.get(), static_cast<std::size_t>(size())), value());
  }
  round_to<bf16>();
}

void Weight::round_to_f16() { round_to<f16>(); }

Shape<2> Weight::matrix_shape() const {
  return {shape_.size() == 2 ? shape_[0] : 1, shape_.empty() ? 1 : shape_.back()};
}

std::span<float> Weight::gradient() {
  check_float();
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
