// A trainable tensor of floats, the gradient of the loss by it, and its name. Layers and position encodings own their
// weights and list them under dotted paths, such as `attention.q_proj.weight`, for optimisers, checkpoints and
// bindings.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/core/dtype.h"
#include "phasor/core/tensor.h"

namespace phasor {

class Weight {
 public:
  Weight() = default;
  // The name is that within the owner: "weight", "bias", "slopes". The shape is [] for a single number, [n] or
  // [rows, columns]; values begin as zeros.
  Weight(std::string name, std::vector<std::int64_t> shape);
  // Its zeros are made when value() is first called: never, if they are kept elsewhere.
  static Weight without_values(std::string name, std::vector<std::int64_t> shape);

  const std::string& name() const { return name_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t size() const { return size_; }

  // Refused where the weight is kept in 16 bits. To write, kept floats are copied first.
  std::span<float> value();
  std::span<const float> value() const;
  TensorView<const float, 2> matrix() const { return {value().data(), matrix_shape()}; }  // a vector is one row

  // Values may be kept in a file's memory: size() of them, and what owns the memory. Copies of the weight share them.
  // Those of 16 bits are for inference: they take half the memory, and a gradient is refused.
  void keep(std::shared_ptr<const float> values);
  void keep(std::shared_ptr<const bf16> values);
  void keep(std::shared_ptr<const f16> values);
  void round_to_bf16();  // from floats or f16
  void round_to_f16();   // from floats
  bool is_bf16() const { return bf16_ != nullptr; }
  bool is_f16() const { return f16_ != nullptr; }
  TensorView<const bf16, 2> bf16_matrix() const { return {bf16_.get(), matrix_shape()}; }
  TensorView<const f16, 2> f16_matrix() const { return {f16_.get(), matrix_shape()}; }
  // Calls use(view) with the matrix of its type.
  template <class Use>
  auto visit(const Use& use) const {
    return is_bf16() ? use(bf16_matrix()) : is_f16() ? use(f16_matrix()) : use(matrix());
  }

  // backward adds to it. It is created, as zeros, at first use: inference never has one.
  std::span<float> gradient();
  TensorView<float, 2> gradient_matrix() { return {gradient().data(), matrix_shape()}; }
  void clear_gradient();

 private:
  Shape<2> matrix_shape() const;
  void check_float() const;
  void drop_values();
  template <class T>
  void round_to();

  std::string name_;
  std::vector<std::int64_t> shape_;
  std::int64_t size_ = 0;
  Tensor<float, 1> value_, gradient_;
  std::shared_ptr<const float> floats_;  // instead of value_
  std::shared_ptr<const bf16> bf16_;
  std::shared_ptr<const f16> f16_;
};

// A weight and its path within a model.
struct NamedWeight {
  std::string name;
  Weight* weight = nullptr;
};
using NamedWeights = std::vector<NamedWeight>;

// "attention" and "q_proj" make "attention.q_proj"; an empty prefix adds nothing.
std::string weight_path(std::string_view prefix, std::string_view name);

// Adds a weight to a list, under its own name after the prefix.
void list_weight(std::string_view prefix, Weight& weight, NamedWeights& weights);

}  // namespace phasor
