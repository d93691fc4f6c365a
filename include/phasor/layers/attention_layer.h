// Attention as a layer: projections, optional norms of q and k, the positions of a plan, the fused kernel.
//
//   AttentionLayer layer({.hidden_size = 512, .num_attention_heads = 8, .num_key_value_heads = 2}, initial);
//   layer.forward({.query = x}, plan, {.causal = true}, y, &saved, workspace);
//   layer.backward(saved, grad_y, {.query = grad_x}, &plan_gradient, workspace);
//
// Positions are given as a plan, whatever encoding made it. The plan sets scale, rotation and relative bias of the
// options; the caller sets masks, lengths, window and softcap.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "phasor/attention/attention.h"
#include "phasor/layers/attention_projections.h"
#include "phasor/layers/layer_cache.h"
#include "phasor/layers/norm.h"
#include "phasor/layers/workspace.h"
#include "phasor/position/plan.h"

namespace phasor {

// Names as in Hugging Face configs: Llama and Qwen3 (with qk_norm) have no biases.
struct AttentionLayerConfig {
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  bool attention_bias = false;           // biases of the projections
  std::optional<bool> output_bias = {};  // of the output's projection, if it differs: Qwen2
  bool qk_norm = false;                  // RmsNorm of each head of q and k, before the rotation
  double norm_eps = 1e-6;
  std::optional<double> scale = {};  // of scores, instead of the plan's: Gemma
  double dropout = 0.0;              // of attention weights, only in calls that save (training)
};

class AttentionLayer {
 public:
  struct Saved {
    AttentionInputs inputs{};
    std::optional<PlanInput> plan{};  // which `options` refers to
    AttentionOptions options{};
    Tensor<float, 4> q, k, v;             // as projected, [B, T, H, D] and [B, S, G, D]
    Tensor<float, 4> normed_q, normed_k;  // with qk_norm
    RmsNorm::Saved q_norm, k_norm;
    Tensor<float, 4> heads;    // results, [B, T, H, D]
    Tensor<float, 4> softmax;  // [B, H, T, 2]
  };

  AttentionLayer(const AttentionLayerConfig& config, InitialValues& initial);

  const AttentionLayerConfig& config() const { return config_; }
  const AttentionHeads& heads() const { return heads_; }
  void list_weights(std::string_view prefix, NamedWeights& weights);  // q_proj, k_proj, v_proj, o_proj, q_norm, k_norm

  // y [B, T, C]. With `weights` [B, H, T, S] also softmax(scores), after dropout. While training, options.seed
  // chooses what is dropped.
  void forward(const AttentionInputs& inputs, const PlanInput& plan, const AttentionOptions& options,
               TensorView<float, 3> y, Saved* saved, Workspace& workspace, TensorView<float, 4> weights = {}) const;

  // grad_plan, when given, gets the gradient of the plan's bias added, and grad_mask that of options.mask written.
  void backward(const Saved& saved, TensorView<const float, 3> grad_y, const AttentionInputGradients& grad_inputs,
                PlanGradient* grad_plan, Workspace& workspace, TensorView<float, 4> grad_mask = {});

  // Decoding: the new tokens x [B, n, C], or the first counts[b] of each sequence, are added to the cache and attend to
  // all of it, causally. The plan has the
  // rotation of the new tokens; for a cache of unrotated keys also (rotate_k) of all tokens, the new ones included.
  LayerCache make_cache(const LayerCacheConfig& config) const;
  void decode(TensorView<const float, 3> x, const PlanInput& plan, const AttentionOptions& options, LayerCache& cache,
              TensorView<float, 3> y, Workspace& workspace, std::span<const std::int64_t> counts = {}) const;

  // Attention to an encoder's states [B, S, C], whose keys and values are made once; `lengths` of each sequence, or
  // none. Positions play no part.
  KvCache read_states(TensorView<const float, 3> states, std::span<const std::int64_t> lengths, CacheStorage storage,
                      Workspace& workspace) const;
  void attend_states(TensorView<const float, 3> x, const KvCache& states, TensorView<float, 3> y,
                     Workspace& workspace) const;

 private:
  struct Activations;
  void project(const AttentionInputs& inputs, Activations& to, Saved* saved) const;
  void check_inputs(const AttentionInputs& inputs, const Shape<3>& y) const;
  void backward_norms(const Saved& saved, TensorView<float, 4> grad_q, TensorView<float, 4> grad_k,
                      Workspace& workspace);

  AttentionLayerConfig config_;
  AttentionHeads heads_;
  AttentionProjections projections_;
  std::optional<RmsNorm> q_norm_, k_norm_;
};

// Names and defaults of standard multi-head attention: biased projections, as many key heads as heads.
struct MultiHeadAttentionConfig {
  std::int64_t embed_dim = 0;
  std::int64_t num_heads = 0;
  double dropout = 0.0;
};

class MultiHeadAttention : public AttentionLayer {
 public:
  MultiHeadAttention(const MultiHeadAttentionConfig& config, InitialValues& initial)
      : AttentionLayer({.hidden_size = config.embed_dim,
                        .num_attention_heads = config.num_heads,
                        .attention_bias = true,
                        .dropout = config.dropout},
                       initial) {}
};

}  // namespace phasor
