// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv 1711.05101), as torch.optim.AdamW
// computes it:
//
//   p <- p (1 - lr decay)
//   m <- m + (1 - beta1) (g - m),   v <- beta2 v + (1 - beta2) g^2
//   p <- p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)        t = 1, 2, ...
//
// One pass over all weights. Results depend neither on the number of threads nor on the SIMD target.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phasor/core/tensor.h"
#include "phasor/core/weight.h"

namespace phasor {

struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  // of matrices: norms, biases and single numbers do not decay
};

class AdamW {
 public:
  // What is kept for a weight: running means of its gradient and of its square.
  struct Moments {
    std::string name;
    Tensor<float, 1> mean, square;
  };

  // The weights are the model's, which outlives the optimizer and is not moved.
  AdamW(NamedWeights weights, const AdamWConfig& config);

  // Changes the weights by their gradients, each multiplied by gradient_scale, and makes the gradients zero.
  void step(double learning_rate, double gradient_scale = 1.0);

  // The square root of the sum of squares of all gradients, in double, in one order.
  double gradient_norm() const;

  // Everything that a step depends on but weights and gradients: saved and restored, training continues bit for bit.
  std::int64_t steps_done() const { return steps_done_; }
  const std::vector<Moments>& moments() const { return moments_; }
  // Of the same weights by name and size, in the same order.
  void restore(std::int64_t steps_done, std::vector<Moments> moments);

 private:
  // A part of one weight, small enough to share the work.
  struct Part {
    std::size_t weight;
    std::int64_t first, count;
  };

  NamedWeights weights_;
  AdamWConfig config_;
  std::vector<Moments> moments_;
  std::vector<Part> parts_;
  std::int64_t steps_done_ = 0;
};

// What gradients of this norm are multiplied by so that it is at most max_norm: torch's clip_grad_norm_. 0 for
// max_norm: 1, nothing is clipped.
double clip_scale(double norm, double max_norm);

}  // namespace phasor
