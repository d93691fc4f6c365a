#include "phasor/position/encoding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "encoding_json.h"
#include "encoding_rows.h"
#include "phasor/core/check.h"

namespace phasor {

// ---- the registry: the only list of encodings ----

std::span<const Encoding> encodings() {
  static const std::array rows{kNone, kLearned, kSinusoidal, kRope, kAlibi, kT5, kRelative};
  return rows;
}

const Encoding& encoding(std::string_view name) {
  std::string known;
  for (const Encoding& row : encodings()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  fail("encoding", "name: \"", name, "\", expected one of ", known);
}

std::optional<std::int64_t> longest(const EncodingConfig& config) { return encoding(config.name()).longest(config); }

bool learns(const EncodingConfig& config) { return encoding(config.name()).learns(config); }

std::vector<Weight> parameters(const EncodingConfig& config, const ModelShape& shape, std::uint64_t seed) {
  return encoding(config.name()).parameters(config, shape, seed);
}

PositionPlan lower(const EncodingConfig& config, std::span<const Weight> weights, const Placement& placement) {
  return encoding(config.name()).lower(config, weights, placement);
}

void lower_backward(const EncodingConfig& config, std::span<Weight> weights, const Placement& placement,
                    const PlanGradient& gradient) {
  encoding(config.name()).lower_backward(config, weights, placement, gradient);
}

std::string describe(const EncodingConfig& config) { return encoding(config.name()).describe(config); }

// ---- what rows share ----

std::optional<std::int64_t> any_length(const EncodingConfig&) { return std::nullopt; }
bool always_learns(const EncodingConfig&) { return true; }
bool never_learns(const EncodingConfig&) { return false; }

std::vector<Weight> no_parameters(const EncodingConfig&, const ModelShape&, std::uint64_t) { return {}; }

void no_gradient(const EncodingConfig&, std::span<Weight>, const Placement&, const PlanGradient&) {}

std::vector<Weight> one_weight(const char* name, const Shape<2>& shape) {
  std::vector<Weight> list;
  list.emplace_back(name, std::vector<std::int64_t>(shape.begin(), shape.end()));
  return list;
}

TensorView<const float, 2> only_weight(std::string_view encoding, std::span<const Weight> weights,
                                       const Shape<2>& shape) {
  PHASOR_CHECK(weights.size() == 1, "lower", encoding, ": ", weights.size(), " parameters, expected 1");
  const TensorView<const float, 2> values = weights[0].matrix();
  PHASOR_CHECK(values.shape == shape, "lower", encoding, ": parameter of shape ", shape_text(values.shape),
               ", expected ", shape_text(shape));
  return values;
}

double plain_score_scale(const ModelShape& shape) {
  PHASOR_CHECK(shape.head_dim >= 1, "lower", "shape.head_dim: ", shape.head_dim, ", expected 1 or more");
  return 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
}

namespace {

std::pair<std::int64_t, std::int64_t> smallest_and_largest(const TensorView<const std::int64_t, 3>& positions) {
  std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = std::numeric_limits<std::int64_t>::min();
  for (std::int64_t b = 0; b < positions.shape[1]; b++)
    for (std::int64_t t = 0; t < positions.shape[2]; t++) {
      low = std::min(low, positions(0, b, t));
      high = std::max(high, positions(0, b, t));
    }
  return {low, high};
}

}  // namespace

DistanceRange distances(std::string_view encoding, const Placement& placement) {
  const auto& queries = placement.queries;
  const auto& keys = placement.keys.value_or(queries);
  PHASOR_CHECK(queries.shape[0] == 1 && keys.shape[0] == 1, "lower", encoding, ": positions of ", queries.shape[0],
               " axes, expected 1");
  PHASOR_CHECK(placement.shape.heads >= 1, "lower", encoding, ": shape.heads ", placement.shape.heads,
               ", expected 1 or more");
  if (queries.size() == 0 || keys.size() == 0) return {0, 1};
  const auto [query_low, query_high] = smallest_and_largest(queries);
  const auto [key_low, key_high] = smallest_and_largest(keys);
  check_positions("lower", std::min(query_low, key_low));
  check_positions("lower", std::max(query_high, key_high));
  return {key_low - query_high, key_high - query_low - (key_low - query_high) + 1};
}

const Tensor<float, 2>& bias_gradient(std::string_view encoding, const PlanGradient& gradient, const ModelShape& shape,
                                      const DistanceRange& range) {
  const Shape<2> expected{shape.heads, range.count};
  PHASOR_CHECK(gradient.bias.has_value(), "lower_backward", encoding, ": gradient.bias is missing, expected shape ",
               shape_text(expected));
  PHASOR_CHECK(gradient.bias->shape() == expected, "lower_backward", encoding, ": gradient.bias of shape ",
               shape_text(gradient.bias->shape()), ", expected ", shape_text(expected));
  return *gradient.bias;
}

// ---- none ----

static void fields(auto& /*archive*/, Is<NoneConfig> auto& /*of*/) {}

constinit const Encoding kNone{
    .name = NoneConfig::kEncoding,
    .formula = "nothing",
    .acts_on = "nothing",
    .source = "Haviv et al. 2022, arXiv 2203.16634 (NoPE)",
    .gradient = "none",
    .defaults = [](const ModelShape&) -> EncodingConfig { return NoneConfig{}; },
    .longest = any_length,
    .learns = never_learns,
    .parameters = no_parameters,
    .lower =
        [](const EncodingConfig&, std::span<const Weight>, const Placement& placement) {
          PositionPlan plan;
          plan.score_scale = plain_score_scale(placement.shape);
          return plan;
        },
    .lower_backward = no_gradient,
    .describe = [](const EncodingConfig&) -> std::string { return "no position encoding"; },
    .write = write_settings<NoneConfig>,
    .read = read_settings<NoneConfig>,
};

}  // namespace phasor
