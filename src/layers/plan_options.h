// What a plan makes of a call's options, and where the gradient of its bias goes: the same for dot-product and
// Wasserstein-2 layers.
#pragma once

#include "phasor/layers/layer_cache.h"
#include "phasor/layers/workspace.h"
#include "phasor/position/plan.h"

namespace phasor::detail {

// Rotations and bias of the plan. Options that a plan decides must be free.
AttentionOptions with_plan(const char* layer, AttentionOptions options, const PositionPlan& plan);

// Memory for the gradient of the plan's bias, when there is one and it is wanted; and its way into the plan's gradient,
// which is made, as zeros, when it is not there.
TensorView<float, 2> bias_gradient(const PositionPlan& plan, const PlanGradient* gradient, Workspace& workspace);
void add_bias_gradient(const char* layer, TensorView<const float, 2> bias_gradient, PlanGradient* gradient);

// Decoding. Keys are turned when they come, by the rotation of the new tokens, or when they are read, by that of all.
struct CacheRotation {
  std::optional<RotaryView> of_new_keys{}, of_all_keys{};
};
CacheRotation cache_rotation(const char* layer, CachedKeys keys, const PositionPlan& plan);

// Where queries stand and how many keys there are is the cache's.
void check_decode_options(const char* layer, const AttentionOptions& options);

// Attends to a cache that `tokens` were just added to. When that fails they are forgotten: nothing has changed.
template <class Attend>
void or_forget(LayerCache& cache, std::int64_t tokens, const Attend& attend) {
  try {
    attend();
  } catch (...) {
    for (std::size_t b = 0; b < cache.lengths().size(); b++)
      cache.truncate(static_cast<std::int64_t>(b), cache.lengths()[b] - tokens);
    throw;
  }
}

}  // namespace phasor::detail
