// y = x W^T + b, with W [outputs, inputs] as torch stores it. W may be kept in 16 bits (Weight), for inference. With
// bf16, x is rounded to bf16 too, where the CPU multiplies bf16 and unless there are few rows (decoding); f16 is
// widened.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "phasor/core/tensor.h"
#include "phasor/layers/initial_values.h"
#include "phasor/layers/into.h"

namespace phasor {

// The product alone, with a weight that lives elsewhere: an output head may be the table of embeddings. As in Linear.
void linear_forward(const Weight& weight, TensorView<const float, 2> x, TensorView<float, 2> y,
                    std::span<const float> bias = {});
void linear_backward(Weight& weight, TensorView<const float, 2> x, TensorView<const float, 2> grad_y,
                     TensorView<float, 2> grad_x, Into into = Into::write);

class Linear {
 public:
  // With Init::normal a bias begins as zeros, with Init::fan_in as the weight does.
  Linear(std::int64_t inputs, std::int64_t outputs, bool bias, InitialValues& initial);

  std::int64_t inputs() const { return weight_.shape()[1]; }
  std::int64_t outputs() const { return weight_.shape()[0]; }
  Weight& weight() { return weight_; }
  Weight& bias() { return bias_; }                                    // of size 0 when there is none
  void list_weights(std::string_view prefix, NamedWeights& weights);  // "weight", "bias"

  // x is [N, inputs], y [N, outputs]. Rows may be parts of wider rows. y must not share memory with x.
  void forward(TensorView<const float, 2> x, TensorView<float, 2> y) const;

  // Several layers whose results do not depend on each other. With few rows, as in decoding, they share one parallel
  // region.
  struct Call {
    const Linear& layer;
    TensorView<const float, 2> x;
    TensorView<float, 2> y;
  };
  static void forward_together(std::initializer_list<Call> calls);  // at most 4

  // Adds to the gradients of the weights. grad_x = grad_y W is written or added to; without data it is left out.
  void backward(TensorView<const float, 2> x, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                Into into = Into::write);

  // The two halves of backward, for a caller that has x only after it has grad_x.
  void backward_input(TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x, Into into = Into::write) const;
  void backward_weights(TensorView<const float, 2> x, TensorView<const float, 2> grad_y);

 private:
  Weight weight_, bias_;
};

}  // namespace phasor
