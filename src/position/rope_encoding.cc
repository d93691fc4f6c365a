// RoPE as a row of the registry.
#include <algorithm>
#include <sstream>

#include "encoding_rows.h"
#include "phasor/position/rope.h"
#include "rope_internal.h"

namespace phasor {
namespace {

PositionPlan rope_lower(const EncodingConfig& config, ParameterValues, const Placement& placement) {
  const auto& rope = config.as<RopeConfig>();
  PHASOR_CHECK(rope.head_dim == placement.shape.head_dim, "rope", "head_dim: ", rope.head_dim,
               ", expected the model's ", placement.shape.head_dim);
  // Queries and keys must turn by the same frequencies: the length is that of both.
  std::int64_t length = context_length(placement.queries);
  if (placement.keys) length = std::max(length, context_length(*placement.keys));
  PositionPlan plan;
  plan.rotate_q = rotary_table(rope, placement.queries, length);
  if (placement.keys) plan.rotate_k = rotary_table(rope, *placement.keys, length);
  plan.score_scale = rope_score_scale(rope, placement.shape.head_dim);
  return plan;
}

std::string rope_describe(const EncodingConfig& config) {
  const auto& rope = config.as<RopeConfig>();
  std::ostringstream text;
  text << rope.scaling.type << " rotary embedding of " << rotated_channels(rope) << " of " << rope.head_dim
       << " channels, theta " << rope.theta;
  if (rope.scaling.factor) text << ", factor " << *rope.scaling.factor;
  text << ", pairs " << pairing_name(rope.pairing);
  return text.str();
}

}  // namespace

constinit const Encoding kRope{
    .name = RopeConfig::kEncoding,
    .formula = "(a, b) -> (a cos - b sin, a sin + b cos), angle = position inv_freq[i]",
    .acts_on = "q and k",
    .source = "Su et al. 2021, arXiv 2104.09864",
    .gradient = "none of its own; to q and k by the transposed rotation",
    .defaults = [](const ModelShape& shape) -> EncodingConfig {
      return RopeConfig{.head_dim = shape.head_dim, .max_position_embeddings = shape.max_length};
    },
    .parameters = no_parameters,
    .lower = rope_lower,
    .lower_backward = no_gradient,
    .describe = rope_describe,
};

}  // namespace phasor
