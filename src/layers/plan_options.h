// The options of a layer's call, made from the caller's, the plan's and the layer's own, and the gradient of the plan's
// bias: shared by dot-product and Wasserstein-2 layers.
#pragma once

#include "phasor/layers/layer_cache.h"
#include "phasor/layers/workspace.h"
#include "phasor/position/plan.h"

namespace phasor::detail {

// Score terms that a layer makes from its own activations. The forgetting transformer (Lin et al. 2025, arXiv
// 2503.02130) has one: with forget gates f of the layer's input, score(i, j) gets log f_{j+1} + ... + log f_i, which is
// a key bias, since softmax cancels what is the same in a row. Saved options own what is a temporary, and the backward
// pass gives its gradient as AttentionGradients::key_bias.
struct LayerTerms {
  TensorInput<float, 3> key_bias{};  // [B or 1, G or 1, S]; without data: none
};

// What a layer says about its scores.
struct LayerScores {
  const char* layer;                 // in errors
  bool scaled = true;                // Wasserstein-2 scores have tau instead
  std::optional<double> scale = {};  // instead of the plan's score_scale
  double dropout = 0.0;              // 0 unless training
  LayerTerms own{};
};

// All options of a call. The caller must not have set what the plan or the layer sets.
AttentionOptions call_options(const LayerScores& scores, AttentionOptions options, const PositionPlan& plan);

// Memory for the gradient of the plan's bias, if there is a bias and its gradient is requested. The second function
// adds it to the plan's gradient, which is created as zeros if it is absent.
TensorView<float, 2> bias_gradient(const PositionPlan& plan, const PlanGradient* gradient, Workspace& workspace);
void add_bias_gradient(const char* layer, TensorView<const float, 2> bias_gradient, PlanGradient* gradient);

// Decoding. Keys are rotated when they are appended, by the table of the new tokens, or when they are read, by the
// table of all tokens.
struct CacheRotation {
  std::optional<RotaryView> of_new_keys{}, of_all_keys{};
};
CacheRotation cache_rotation(const char* layer, CachedKeys keys, const PositionPlan& plan);

// The cache sets positions of queries and numbers of keys.
void check_decode_options(const char* layer, const AttentionOptions& options);

// Attends to a cache to which tokens were just appended. If that throws, they are removed again: the lengths are those
// before.
template <class Attend>
void or_forget(LayerCache& cache, std::span<const std::int64_t> before, const Attend& attend) {
  try {
    attend();
  } catch (...) {
    for (std::size_t b = 0; b < before.size(); b++) cache.truncate(static_cast<std::int64_t>(b), before[b]);
    throw;
  }
}

}  // namespace phasor::detail
