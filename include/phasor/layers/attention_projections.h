// The four projections of an attention layer: rows of C channels to H queries, G keys and G values of D channels, and
// heads back to rows. Public because attention layers hold them by value, so that layers can be copied.
#pragma once

#include <cstdint>
#include <string_view>

#include "phasor/core/tensor.h"
#include "phasor/layers/linear.h"

namespace phasor {

// Heads of an attention layer. Sizes that are 0 follow from the others.
struct AttentionHeads {
  std::int64_t channels = 0;   // C
  std::int64_t heads = 0;      // H
  std::int64_t key_heads = 0;  // G; 0: as many as heads
  std::int64_t head_dim = 0;   // D; 0: C / H

  // With all sizes filled in. Errors name the layer: C not divisible by H, H not by G, sizes below 1.
  AttentionHeads checked(const char* layer) const;
};

// Inputs of an attention layer, [B, T, C] and [B, S, C]. Without keys, the keys are the queries (self-attention);
// without values, the values are the keys.
struct AttentionInputs {
  TensorView<const float, 3> query{}, key{}, value{};

  const TensorView<const float, 3>& keys() const { return key.data ? key : query; }
  const TensorView<const float, 3>& values() const { return value.data ? value : keys(); }
};

// Gradients of those inputs, overwritten; those without data are not computed. An input that was not given has no
// gradient of its own: it is part of the gradient of the input that replaced it.
struct AttentionInputGradients {
  TensorView<float, 3> query{}, key{}, value{};
};

// Heads in the memory of rows: [B, T, H, D] seen as [B, H, T, D].
template <class T>
struct ProjectedHeads {
  TensorView<T, 4> q{}, k{}, v{};  // [B, T, H, D], [B, S, G, D]
};

class AttentionProjections {
 public:
  // Errors name `layer`, which is a literal. q, k and v have a bias or not, and o.
  AttentionProjections(const char* layer, const AttentionHeads& heads, bool bias, bool output_bias,
                       InitialValues& initial);

  // q, k, v and o, each with this suffix: "_proj" makes "q_proj".
  void list_weights(std::string_view prefix, std::string_view suffix, NamedWeights& weights);

  void forward(const AttentionInputs& inputs, const ProjectedHeads<float>& heads) const;
  // The parts of forward: of tokens that attend to others, and of those others.
  void forward_queries(TensorView<const float, 3> x, TensorView<float, 4> q) const;
  void forward_keys(TensorView<const float, 3> x, TensorView<float, 4> k, TensorView<float, 4> v) const;
  void forward_out(TensorView<const float, 4> heads, TensorView<float, 3> y) const;  // [B, T, H, D] to [B, T, C]

  void backward(const AttentionInputs& inputs, const ProjectedHeads<const float>& grad_heads,
                const AttentionInputGradients& grad_inputs);
  void backward_out(TensorView<const float, 4> heads, TensorView<const float, 3> grad_y,
                    TensorView<float, 4> grad_heads);

 private:
  void check_gradients(const AttentionInputs& inputs, const AttentionInputGradients& gradients) const;

  const char* layer_;
  Linear q_, k_, v_, o_;
};

}  // namespace phasor
