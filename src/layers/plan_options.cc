#include "plan_options.h"

#include <algorithm>

namespace phasor::detail {

AttentionOptions call_options(const LayerScores& scores, AttentionOptions options, const PositionPlan& plan) {
  const char* layer = scores.layer;
  PHASOR_CHECK(!options.q_rotary && !options.k_rotary && !options.relative_bias && options.alibi_slopes.empty() &&
                   !options.scale,
               layer, "options: rotation, relative bias or scale given, expected none: they are the plan's");
  PHASOR_CHECK(options.dropout == 0, layer, "options.dropout: ", options.dropout, ", expected 0: it is the layer's");
  if (plan.rotate_q) options.q_rotary = *plan.rotate_q;
  if (plan.key_rotation()) options.k_rotary = *plan.key_rotation();
  if (plan.bias) options.relative_bias = *plan.bias;
  if (scores.scaled) options.scale = scores.scale ? scores.scale : plan.score_scale;
  if (scores.own.key_bias.data != nullptr) {
    PHASOR_CHECK(options.key_bias.data == nullptr, layer, "options.key_bias: given, expected none: it is the layer's");
    options.key_bias = scores.own.key_bias;
  }
  options.dropout = scores.dropout;
  return options;
}

TensorView<float, 2> bias_gradient(const PositionPlan& plan, const PlanGradient* gradient, Workspace& workspace) {
  if (!plan.bias || gradient == nullptr) return {};
  return workspace.take(plan.bias->table.shape());
}

void add_bias_gradient(const char* layer, TensorView<const float, 2> bias_gradient, PlanGradient* gradient) {
  if (bias_gradient.data == nullptr) return;
  if (!gradient->bias) gradient->bias.emplace(bias_gradient.shape);
  PHASOR_CHECK(gradient->bias->shape() == bias_gradient.shape, layer,
               "grad_plan.bias: ", shape_text(gradient->bias->shape()), ", expected ", shape_text(bias_gradient.shape),
               " as the plan has");
  std::transform(gradient->bias->begin(), gradient->bias->end(), bias_gradient.data, gradient->bias->begin(),
                 [](float a, float b) { return a + b; });
}

void check_decode_options(const char* layer, const AttentionOptions& options) {
  PHASOR_CHECK(options.query_offsets.empty() && options.key_lengths.empty() && options.query_starts.empty() &&
                   options.key_starts.empty(),
               layer, "options: offsets, lengths or starts given, expected none: they are the cache's");
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
