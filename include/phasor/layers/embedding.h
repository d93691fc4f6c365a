// A row of C numbers for each token of a vocabulary.
#pragma once

#include <cstdint>
#include <string_view>

#include "phasor/core/tensor.h"
#include "phasor/layers/initial_values.h"
#include "phasor/layers/into.h"

namespace phasor {

class Embedding {
 public:
  // Normal with deviation 1 with Init::fan_in, as in torch.nn.Embedding; 0.02 with Init::normal.
  // Rows are multiplied by the scale when they are read: sqrt(C) in the original Transformer and in Gemma.
  Embedding(std::int64_t vocabulary, std::int64_t channels, InitialValues& initial, double scale = 1.0);

  std::int64_t vocabulary() const { return weight_.shape()[0]; }
  std::int64_t channels() const { return weight_.shape()[1]; }
  Weight& weight() { return weight_; }  // [vocabulary, C]
  const Weight& weight() const { return weight_; }
  void list_weights(std::string_view prefix, NamedWeights& weights);  // "weight"

  // tokens are [B, T], y is [B, T, C]: y(b, t) = scale * weight(tokens(b, t)), or added to it.
  void forward(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> y, Into into = Into::write) const;

  // Adds to the gradient of the weight: tokens that occur more than once in the order of (b, t).
  void backward(TensorView<const std::int32_t, 2> tokens, TensorView<const float, 3> grad_y);

 private:
  void check(TensorView<const std::int32_t, 2> tokens, const char* name, TensorView<const float, 3> y) const;

  Weight weight_;
  float scale_;
};

}  // namespace phasor
