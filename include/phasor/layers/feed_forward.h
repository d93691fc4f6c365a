// The two feed-forward layers of transformers, from C channels to `hidden` and back.
#pragma once

#include <cstdint>
#include <string_view>

#include "phasor/core/tensor.h"
#include "phasor/layers/initial_values.h"
#include "phasor/layers/into.h"
#include "phasor/layers/linear.h"
#include "phasor/layers/workspace.h"

namespace phasor {

// y = down(silu(gate(x)) * up(x)), without biases (Shazeer 2020). Llama's paper code and the W2 transformer call gate,
// up and down w1, w3 and w2.
class SwiGlu {
 public:
  // Only these results of forward are kept. backward recomputes act = silu(gate) * up in a pass that reads both anyway.
  struct Saved {
    TensorView<const float, 2> x{};
    Tensor<float, 2> gate, up;  // [N, hidden]
  };

  SwiGlu(std::int64_t channels, std::int64_t hidden, InitialValues& initial);

  std::int64_t channels() const { return gate_proj_.inputs(); }
  std::int64_t hidden() const { return gate_proj_.outputs(); }
  void list_weights(std::string_view prefix, NamedWeights& weights);  // gate_proj, up_proj, down_proj

  // x and y are [N, C]; y is not in the memory of x.
  void forward(TensorView<const float, 2> x, TensorView<float, 2> y, Saved* saved, Workspace& workspace) const;

  // Adds to the gradients of the weights; grad_x is written.
  void backward(const Saved& saved, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                Workspace& workspace);

 private:
  Linear gate_proj_, up_proj_, down_proj_;
};

// gelu(x) = x P(x), where P is the distribution function of the normal distribution (Hendrycks, Gimpel 2016).
enum class Gelu {
  erf,   // exact: torch's default, BERT, ViT
  tanh,  // P by a hyperbolic tangent: GPT-2, torch's approximate="tanh"
};

// y = fc2(gelu(fc1(x))), with biases.
class GeluFeedForward {
 public:
  struct Saved {
    TensorView<const float, 2> x{};
    Tensor<float, 2> hidden;  // fc1(x), [N, hidden]
  };

  GeluFeedForward(std::int64_t channels, std::int64_t hidden, InitialValues& initial, Gelu gelu = Gelu::erf);

  std::int64_t channels() const { return fc1_.inputs(); }
  std::int64_t hidden() const { return fc1_.outputs(); }
  void list_weights(std::string_view prefix, NamedWeights& weights);  // fc1, fc2

  // As in SwiGlu.
  void forward(TensorView<const float, 2> x, TensorView<float, 2> y, Saved* saved, Workspace& workspace) const;
  void backward(const Saved& saved, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                Workspace& workspace);

 private:
  Linear fc1_, fc2_;
  Gelu gelu_;
};

}  // namespace phasor
