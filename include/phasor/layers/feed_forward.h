// The feed-forward layers of transformers, from C channels to `hidden` and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "phasor/core/tensor.h"
#include "phasor/layers/initial_values.h"
#include "phasor/layers/into.h"
#include "phasor/layers/linear.h"
#include "phasor/layers/workspace.h"

namespace phasor {

// gelu(x) = x P(x), where P is the distribution function of the normal distribution (Hendrycks, Gimpel 2016).
enum class Activation {
  silu,       // x / (1 + e^-x): Llama
  gelu,       // exact: torch's default, BERT, ViT
  gelu_tanh,  // P by a hyperbolic tangent: GPT-2, Gemma, torch's approximate="tanh"
  relu,       // T5
};

struct FeedForwardConfig {
  std::int64_t channels = 0, hidden = 0;
  Activation activation = Activation::silu;
  bool gated = true;
  bool bias = false;
};

// gated:   y = down_proj(f(gate_proj(x)) * up_proj(x))   (Shazeer 2020; with silu it is SwiGLU). Llama's paper code and
//          the W2 transformer call gate, up and down w1, w3 and w2.
// else:    y = fc2(f(fc1(x)))
class FeedForward {
 public:
  // Only these results of forward are kept. backward recomputes act = f(x) * up in a pass that reads both anyway.
  struct Saved {
    TensorView<const float, 2> x{};
    Tensor<float, 2> hidden, up;  // gate_proj(x) or fc1(x), and up_proj(x) if gated: [N, hidden]
  };

  FeedForward(const FeedForwardConfig& config, InitialValues& initial);

  const FeedForwardConfig& config() const { return config_; }
  void list_weights(std::string_view prefix, NamedWeights& weights);  // gate_proj, up_proj, down_proj; or fc1, fc2

  // x and y are [N, C]; y is not in the memory of x.
  void forward(TensorView<const float, 2> x, TensorView<float, 2> y, Saved* saved, Workspace& workspace) const;

  // Adds to the gradients of the weights; grad_x is written.
  void backward(const Saved& saved, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                Workspace& workspace);

 private:
  FeedForwardConfig config_;
  Linear in_;  // gate_proj or fc1
  std::optional<Linear> up_;
  Linear out_;  // down_proj or fc2
};

}  // namespace phasor
