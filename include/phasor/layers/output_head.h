// What turns the states of a model into logits of its vocabulary: a matrix, which may be the table of embeddings.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "phasor/layers/feed_forward.h"
#include "phasor/layers/linear.h"
#include "phasor/layers/norm.h"
#include "phasor/layers/workspace.h"

namespace phasor {

struct OutputHeadConfig {
  std::int64_t channels = 0, vocabulary = 0;
  bool tied = true;  // to the embeddings
  bool bias = false;
  // The head of masked language models: states become norm(activation(dense(states))) first.
  bool transform = false;
  bool transform_bias = true;
  Activation activation = Activation::gelu;
  NormConfig norm = {};
  double scale = 1.0;    // of logits: T5
  double softcap = 0.0;  // c > 0: logits become c tanh(logit / c): Gemma 2
};

class OutputHead {
 public:
  struct Saved {
    TensorView<const float, 2> x{};
    Tensor<float, 2> dense, active, transformed;  // with a transform
    Norm::Saved norm;
    Tensor<float, 2> logits;  // with a softcap
  };

  OutputHead(const OutputHeadConfig& config, InitialValues& initial);
  void list_weights(std::string_view prefix, NamedWeights& weights);  // weight if not tied, bias, dense, norm

  // states [N, C] to logits [N, vocabulary]. `embeddings` is the table that the head may be tied to.
  void forward(TensorView<const float, 2> states, const Weight& embeddings, TensorView<float, 2> logits, Saved* saved,
               Workspace& workspace) const;
  // Adds to the gradients of the weights; grad_states is written.
  void backward(const Saved& saved, Weight& embeddings, TensorView<const float, 2> grad_logits,
                TensorView<float, 2> grad_states, Workspace& workspace);

 private:
  OutputHeadConfig config_;
  std::optional<Weight> weight_;
  Weight bias_;
  std::optional<Linear> dense_;
  std::optional<Norm> norm_;
};

}  // namespace phasor
