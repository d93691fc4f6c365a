#include "phasor/position/alibi.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "encoding_json.h"
#include "encoding_rows.h"
#include "phasor/core/check.h"

namespace phasor {

static void fields(auto& archive, Is<AlibiConfig> auto& of) {
  archive("causal", of.causal);
  archive("learnable", of.learnable);
}

namespace {

std::vector<Weight> alibi_parameters(const EncodingConfig& config, const ModelShape& shape, std::uint64_t) {
  if (!config.as<AlibiConfig>().learnable) return {};
  std::vector<Weight> slopes = one_weight("slopes", {shape.heads, 1});
  std::ranges::copy(alibi_slopes(shape.heads), slopes[0].value().begin());
  return slopes;
}

// The distances of the table: none after the query when causal, since the clamped end, distance 0, serves those.
DistanceRange alibi_distances(const AlibiConfig& config, const Placement& placement) {
  DistanceRange range = distances("alibi", placement);
  if (config.causal) {
    range.first = std::min<std::int64_t>(range.first, 0);
    range.count = 1 - range.first;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 28;
  PHASOR_CHECK(range.count <= kMost, "lower", "alibi: positions span ", range.count, " distances, expected at most ",
               kMost);
  return range;
}

PositionPlan alibi_lower(const EncodingConfig& config, std::span<const Weight> weights, const Placement& placement) {
  const auto& alibi = config.as<AlibiConfig>();
  const std::int64_t heads = placement.shape.heads;
  const DistanceRange range = alibi_distances(alibi, placement);
  const std::vector<float> fixed = alibi.learnable ? std::vector<float>{} : alibi_slopes(heads);
  const float* slopes = alibi.learnable ? only_weight("alibi", weights, {heads, 1}).data : fixed.data();
  RelativeBias bias{Tensor<float, 2>({heads, range.count}), range.first};
  for_each_bias(placement.shape, range, [&](std::int64_t h, std::int64_t i) {
    bias.table(h, i) = -slopes[h] * static_cast<float>(std::abs(range.first + i));
  });
  PositionPlan plan;
  plan.bias = std::move(bias);
  plan.score_scale = plain_score_scale(placement.shape);
  return plan;
}

// d slope[h] = -sum over distances of |distance| d bias[h, distance], in double.
void alibi_backward(const EncodingConfig& config, std::span<Weight> weights, const Placement& placement,
                    const PlanGradient& gradient) {
  const auto& alibi = config.as<AlibiConfig>();
  if (!alibi.learnable) return;
  only_weight("alibi", weights, {placement.shape.heads, 1});
  const DistanceRange range = alibi_distances(alibi, placement);
  const Tensor<float, 2>& d_bias = bias_gradient("alibi", gradient, placement.shape, range);
  std::vector<double> d_slopes(static_cast<std::size_t>(placement.shape.heads), 0.0);
  for_each_bias(placement.shape, range, [&](std::int64_t h, std::int64_t i) {
    d_slopes[static_cast<std::size_t>(h)] -= static_cast<double>(std::abs(range.first + i)) * d_bias(h, i);
  });
  for (std::int64_t h = 0; h < placement.shape.heads; h++)
    weights[0].gradient()[static_cast<std::size_t>(h)] += static_cast<float>(d_slopes[static_cast<std::size_t>(h)]);
}

}  // namespace

std::vector<float> alibi_slopes(std::int64_t heads) {
  PHASOR_CHECK(heads >= 1 && heads <= 1 << 16, "alibi_slopes", "heads: ", heads, ", expected 1 to 65536");
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<float> slopes;
  for (std::int64_t h = 0; h < heads; h++) {
    const auto exponent = static_cast<double>(h < power ? 8 * (h + 1) : 4 * (2 * (h - power) + 1));
    slopes.push_back(static_cast<float>(std::exp2(-exponent / static_cast<double>(power))));
  }
  return slopes;
}

constinit const Encoding kAlibi{
    .name = AlibiConfig::kEncoding,
    .formula =
        "s - slope[h] |distance|, slope[h] = 2^(-8(h+1)/H) for H a power of two, else as the authors interpolate",
    .acts_on = "scores",
    .source = "Press et al. 2021, arXiv 2108.12409",
    .gradient = "slopes, if learnable: -sum of |distance| dS",
    .defaults = [](const ModelShape& shape) -> EncodingConfig { return AlibiConfig{.causal = shape.causal}; },
    .longest = any_length,
    .learns = [](const EncodingConfig& config) { return config.as<AlibiConfig>().learnable; },
    .parameters = alibi_parameters,
    .lower = alibi_lower,
    .lower_backward = alibi_backward,
    .describe = [](const EncodingConfig& config) -> std::string {
      const auto& alibi = config.as<AlibiConfig>();
      return std::string(alibi.causal ? "causal" : "symmetric") + " linear bias with " +
             (alibi.learnable ? "learnable" : "fixed") + " slopes";
    },
    .write = write_settings<AlibiConfig>,
    .read = read_settings<AlibiConfig>,
};

}  // namespace phasor
