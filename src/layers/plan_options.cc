#include "plan_options.h"

#include <algorithm>

namespace phasor::detail {

AttentionOptions with_plan(const char* layer, AttentionOptions options, const PositionPlan& plan) {
  PHASOR_CHECK(!options.rotate_q && !options.rotate_k && !options.relative_bias && !options.scale, layer,
               "options: rotation, relative bias or scale given, expected none: they are the plan's");
  if (plan.rotate_q) options.rotate_q = *plan.rotate_q;
  if (plan.key_rotation()) options.rotate_k = *plan.key_rotation();
  if (plan.bias) options.relative_bias = *plan.bias;
  return options;
}

TensorView<float, 2> bias_gradient(const PositionPlan& plan, const PlanGradient* gradient, Workspace& workspace) {
  if (!plan.bias || gradient == nullptr) return {};
  return workspace.take(plan.bias->table.shape());
}

void add_bias_gradient(TensorView<const float, 2> bias_gradient, PlanGradient* gradient) {
  if (bias_gradient.data == nullptr) return;
  if (!gradient->bias) gradient->bias.emplace(bias_gradient.shape);
  std::transform(gradient->bias->begin(), gradient->bias->end(), bias_gradient.data, gradient->bias->begin(),
                 [](float a, float b) { return a + b; });
}

CacheRotation cache_rotation(const char* layer, CachedKeys keys, const PositionPlan& plan) {
  CacheRotation rotation;
  if (!plan.rotate_q) return rotation;
  if (keys == CachedKeys::rotated) {
    rotation.of_new_keys = *plan.rotate_q;
  } else {
    PHASOR_CHECK(plan.rotate_k, layer,
                 "plan.rotate_k: absent, expected a row for every token of a cache of unrotated keys");
    rotation.of_all_keys = *plan.rotate_k;
  }
  return rotation;
}

}  // namespace phasor::detail
