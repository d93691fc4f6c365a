// RoPE as a row of the registry.
#include <algorithm>
#include <sstream>

#include "encoding_json.h"
#include "encoding_rows.h"
#include "phasor/position/rope.h"
#include "rope_internal.h"
#include "rope_keys.h"

namespace phasor {

static constexpr EnumWords<AxisLayout, 5> enum_words(AxisLayout) {
  return {{{AxisLayout::single, "single"},
           {AxisLayout::chunked, "chunked"},
           {AxisLayout::interleaved, "interleaved"},
           {AxisLayout::axial, "axial"},
           {AxisLayout::alternating, "alternating"}}};
}
static constexpr EnumWords<Angles, 2> enum_words(Angles) {
  return {{{Angles::exact, "exact"}, {Angles::float32, "float32"}}};
}

static void fields(auto& archive, Is<RopeScaling> auto& of) {
  archive("rope_type", of.type);
  for (const RopeKey& key : kRopeKeys)
    std::visit([&](auto member) { archive(key.name.data(), of.*member); }, key.member);
}

static void fields(auto& archive, Is<RopeConfig> auto& of) {
  archive("head_dim", of.head_dim);
  archive("theta", of.theta);
  archive("rotary_dim", of.rotary_dim);
  archive("pairing", of.pairing);
  archive("scaling", of.scaling);
  archive("max_position_embeddings", of.max_position_embeddings);
  archive("axes", of.axes);
  archive("sections", of.sections);
  archive("angles", of.angles);
  archive("scores_follow_mscale", of.scores_follow_mscale);
}

namespace {

PositionPlan rope_lower(const EncodingConfig& config, std::span<const Weight>, const Placement& placement) {
  const auto& rope = config.as<RopeConfig>();
  PHASOR_CHECK(rope.head_dim == placement.shape.head_dim, "rope", "head_dim: ", rope.head_dim,
               ", expected the model's ", placement.shape.head_dim);
  // Queries and keys must rotate by the same frequencies: the length is that of both.
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
    .longest = any_length,
    .learns = never_learns,
    .parameters = no_parameters,
    .lower = rope_lower,
    .lower_backward = no_gradient,
    .describe = rope_describe,
    .write = write_settings<RopeConfig>,
    .read = read_settings<RopeConfig>,
};

}  // namespace phasor
