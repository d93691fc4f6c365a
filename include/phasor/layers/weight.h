// A trainable tensor of floats and the gradient of the loss by it. Layers own their weights and list their names,
// dotted paths such as `attention.q_proj.weight`, for optimisers, checkpoints and bindings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/core/tensor.h"

namespace phasor {

class Weight {
 public:
  Weight() = default;
  // [] for a single number, [n] or [rows, columns]; zeros.
  explicit Weight(std::vector<std::int64_t> shape);

  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t size() const { return value_.size(); }

  std::span<float> value() { return {value_.data(), static_cast<std::size_t>(size())}; }
  std::span<const float> value() const { return {value_.data(), static_cast<std::size_t>(size())}; }
  TensorView<const float, 2> matrix() const { return {value_.data(), matrix_shape()}; }  // a vector is one row

  // backward adds to it. It is created, as zeros, at first use: inference never has one.
  std::span<float> gradient();
  TensorView<float, 2> gradient_matrix() { return {gradient().data(), matrix_shape()}; }
  void clear_gradient();

 private:
  Shape<2> matrix_shape() const;

  std::vector<std::int64_t> shape_;
  Tensor<float, 1> value_, gradient_;
};

struct NamedWeight {
  std::string name;
  Weight* weight = nullptr;
};
using NamedWeights = std::vector<NamedWeight>;

// "attention" and "q_proj" make "attention.q_proj"; an empty prefix adds nothing.
std::string weight_path(std::string_view prefix, std::string_view name);

// Initial values of weights. Every weight of a model draws from its own random stream, in the order of creation.
enum class Init {
  fan_in,  // uniform within 1/sqrt(inputs): what torch.nn.Linear does
  normal,  // deviation 0.02: what transformers' language models do
  zeros,   // for weights that are read from a file
};

// The random numbers that a new model draws from: equal seeds make equal models.
class InitialValues {
 public:
  explicit InitialValues(std::uint64_t seed, Init init = Init::fan_in) : seed_(seed), init_(init) {}
  void fill(std::span<float> values, std::int64_t inputs);
  void fill_normal(std::span<float> values, float deviation);
  Init init() const { return init_; }

 private:
  std::uint64_t seed_, next_stream_ = 0;
  Init init_;
};

}  // namespace phasor
