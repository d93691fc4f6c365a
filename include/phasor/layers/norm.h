// Normalisation of rows of C channels. With 1/rms = 1 / sqrt(mean(x^2) + eps), or with the mean m of the row and
// 1 / sqrt(mean((x - m)^2) + eps):
//
//   RmsNorm    y = weight * x / rms          (Zhang, Sennrich 2019)
//   LayerNorm  y = weight * (x - m) / deviation + bias   (Ba, Kiros, Hinton 2016)
//
// Rows may be parts of wider rows: heads of q and k are normalised as [B * T * H, D].
#pragma once

#include <cstdint>
#include <string_view>

#include "phasor/core/dtype.h"
#include "phasor/core/tensor.h"
#include "phasor/core/weight.h"
#include "phasor/layers/into.h"
#include "phasor/layers/workspace.h"

namespace phasor {

// What the gradient of a norm needs: its input, which the caller keeps alive, and two numbers per row.
struct NormSaved {
  TensorView<const float, 2> x{};
  Tensor<float, 1> mean, inverse;  // the mean stays empty in RmsNorm
};

// Where a normalised value is rounded to 16-bit storage. Floats are the same in both.
enum class NormRounding {
  before_weight,  // then multiplied by the weight and rounded again: Llama, Qwen3, the W2 transformer
  after_weight,   // once, at the end: MiniMind, Gemma
};

enum class NormKind { rms, layer };

struct NormConfig {
  NormKind kind = NormKind::rms;
  float eps = 1e-6f;
  bool bias = true;                                     // of a LayerNorm; an RmsNorm has none
  NormRounding rounding = NormRounding::before_weight;  // of an RmsNorm
};

class Norm {
 public:
  using Saved = NormSaved;

  Norm(std::int64_t channels, const NormConfig& config);

  std::int64_t channels() const { return weight_.size(); }
  Weight& weight() { return weight_; }
  Weight& bias() { return bias_; }                                    // of size 0 when there is none
  void list_weights(std::string_view prefix, NamedWeights& weights);  // "weight", ones at first; "bias", zeros

  // y may be x itself, unless x is saved for a gradient.
  void forward(TensorView<const float, 2> x, TensorView<float, 2> y, Saved* saved = nullptr) const;
  void forward(TensorView<const bf16, 2> x, TensorView<bf16, 2> y) const;
  void forward(TensorView<const f16, 2> x, TensorView<f16, 2> y) const;

  // Adds to the gradients of the weights. grad_x is written or added to; it may be grad_y itself when written.
  void backward(const Saved& saved, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                Workspace& workspace, Into into = Into::write);

 private:
  NormConfig config_;
  Weight weight_, bias_;
};

class RmsNorm : public Norm {
 public:
  explicit RmsNorm(std::int64_t channels, float eps = 1e-6f, NormRounding rounding = NormRounding::before_weight)
      : Norm(channels, {.eps = eps, .rounding = rounding}) {}
};

class LayerNorm : public Norm {
 public:
  explicit LayerNorm(std::int64_t channels, float eps = 1e-5f, bool bias = true)
      : Norm(channels, {.kind = NormKind::layer, .eps = eps, .bias = bias}) {}
};

}  // namespace phasor
