// Wasserstein-2 attention as a layer over two streams, mu and log_sigma. Each stream has projections of its own;
// one softmax of minus the squared 2-Wasserstein distance gives the weights of both. mu is rotated, log_sigma
// never: sigma = exp(log_sigma / 2), since log_sigma is the log of the VARIANCE (the name is the original's).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "phasor/attention/w2.h"
#include "phasor/layers/attention_projections.h"
#include "phasor/layers/layer_cache.h"
#include "phasor/layers/streams.h"
#include "phasor/layers/workspace.h"
#include "phasor/position/plan.h"

namespace phasor {

struct W2AttentionConfig {
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  double dropout = 0.0;                  // of attention weights, only in calls that save (training)
};

class W2AttentionLayer {
 public:
  struct StreamSaved {
    Tensor<float, 4> q, k, v;  // [B, T, H, D], [B, T, G, D]
    Tensor<float, 4> heads;    // results, [B, T, H, D]
  };
  struct Saved {
    ConstStreams x{};
    std::optional<PlanInput> plan{};  // which `options` refers to
    AttentionOptions options{};
    StreamSaved mu, log_sigma;
    Tensor<float, 4> softmax;  // [B, H, T, 2]
  };

  W2AttentionLayer(const W2AttentionConfig& config, InitialValues& initial);

  const W2AttentionConfig& config() const { return config_; }
  const AttentionHeads& heads() const { return heads_; }
  void list_weights(std::string_view prefix, NamedWeights& weights);  // q_mu .. o_mu, q_log_sigma .. o_log_sigma, tau
  float tau() const { return tau_.value()[0]; }

  // Streams [B, T, C]. With `weights` [B, H, T, T] also softmax(scores), after dropout.
  void forward(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options, const Streams& y,
               Saved* saved, Workspace& workspace, TensorView<float, 4> weights = {}) const;

  // grad_x is written; grad_plan, when given, gets the gradient of the plan's bias added.
  void backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x, PlanGradient* grad_plan,
                Workspace& workspace);

  // Decoding, as in AttentionLayer. Storage of 16 bits is not offered: distances are differences of nearly equal
  // numbers.
  LayerCache make_cache(const LayerCacheConfig& config) const;
  void decode(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options, LayerCache& cache,
              const Streams& y, Workspace& workspace, std::span<const std::int64_t> counts = {}) const;

 private:
  struct Activations;
  void project(const ConstStreams& x, const Activations& to) const;
  void project_out(const Activations& from, const Streams& y) const;
  void check_streams(const ConstStreams& x, const ConstStreams& y) const;

  W2AttentionConfig config_;
  AttentionHeads heads_;
  AttentionProjections mu_, log_sigma_;
  Weight tau_{"tau", {}};
};

}  // namespace phasor
