#include "phasor/position/rope.h"

#include <algorithm>
#include <cmath>

#include "config_json.h"
#include "phasor/core/check.h"
#include "rope_internal.h"
#include "rope_keys.h"

namespace phasor {
namespace {

constexpr const char* kName = "rope";
constexpr std::int64_t kLargestHead = 1 << 16;

void check_sizes(const RopeConfig& config) {
  PHASOR_CHECK(config.head_dim >= 2 && config.head_dim <= kLargestHead, kName, "head_dim: ", config.head_dim,
               ", expected 2 to ", kLargestHead);
  const std::int64_t rotated = rotated_channels(config);
  PHASOR_CHECK(rotated >= 2 && rotated % 2 == 0 && rotated <= config.head_dim, kName, "rotary_dim: ", rotated,
               ", expected an even number from 2 to head_dim ", config.head_dim);
  PHASOR_CHECK(std::isfinite(config.theta) && config.theta > 1.0, kName, "theta: ", config.theta,
               ", expected a number above 1");
  PHASOR_CHECK(config.max_position_embeddings >= 0, kName, "max_position_embeddings: ", config.max_position_embeddings,
               ", expected 0 (not known) or more");
}

void check_axes(const RopeConfig& config) {
  const bool sectioned = config.axes == AxisLayout::chunked || config.axes == AxisLayout::interleaved;
  if (!sectioned) {
    PHASOR_CHECK(config.sections.empty(), kName, "sections: ", config.sections.size(),
                 " given, expected none for this layout of axes");
  } else {
    PHASOR_CHECK(config.sections.size() == 3, kName, "sections: ", config.sections.size(),
                 " given, expected 3: time, height, width");
    std::int64_t sum = 0;
    for (const std::int64_t pairs : config.sections) {
      PHASOR_CHECK(pairs >= 0 && pairs <= kLargestHead, kName, "sections: contains ", pairs, ", expected 0 or more");
      sum += pairs;
    }
    PHASOR_CHECK(sum == rotated_channels(config) / 2, kName, "sections: sum ", sum, ", expected ",
                 rotated_channels(config) / 2, " pairs, half of the rotary channels");
  }
  if (config.axes == AxisLayout::axial || config.axes == AxisLayout::alternating) {
    PHASOR_CHECK(rotated_channels(config) % 4 == 0, kName, "rotary_dim: ", rotated_channels(config),
                 ", expected a multiple of 4 for two axes");
    PHASOR_CHECK(config.scaling.type == "default", kName, "scaling.type: ", config.scaling.type,
                 ", expected default for a 2-D layout of axes");
  }
}

void check_keys(const RopeConfig& config, const RopeType& type) {
  for (const RopeKey& key : kRopeKeys) {
    const auto has = [&](std::span<const std::string_view> names) {
      return std::ranges::find(names, key.name) != names.end();
    };
    const bool given = is_given(config.scaling, key);
    PHASOR_CHECK(given || !has(type.required), kName, key.name, ": missing, expected for type ", type.name);
    PHASOR_CHECK(!given || has(type.required) || has(type.optional), kName, key.name, ": given, but type ", type.name,
                 " has no such setting");
  }
}

// Settings that are each possible may still be absurd together: factors of 1e300, lists of 1e-310.
void check_result(const RopeConfig& config, const RopeFrequencies& frequencies) {
  constexpr double kLargest = 1e30;  // far within float
  for (std::size_t i = 0; i < frequencies.inv_freq.size(); i++) {
    const double w = frequencies.inv_freq[i];
    const bool rotates =
        config.scaling.type != "proportional" || 2 * static_cast<std::int64_t>(i) < rotated_channels(config);
    PHASOR_CHECK(std::isfinite(w) && w < kLargest && (w > 0.0 || !rotates), kName, "scaling: gives pair ", i,
                 " the frequency ", w, ", expected above 0 and below ", kLargest);
  }
  PHASOR_CHECK(std::isfinite(frequencies.attention_factor) && frequencies.attention_factor < kLargest, kName,
               "scaling: gives the attention factor ", frequencies.attention_factor, ", expected below ", kLargest);
}

std::string as_json(const std::vector<double>& values) { return Json(values).dump(); }
template <class T>
std::string as_json(const std::optional<T>& value) {
  return Json(*value).dump();
}

}  // namespace

std::vector<std::pair<std::string_view, std::string>> given_settings(const RopeScaling& scaling) {
  std::vector<std::pair<std::string_view, std::string>> settings;
  for (const RopeKey& key : kRopeKeys)
    if (is_given(scaling, key))
      settings.emplace_back(key.name, std::visit([&](auto member) { return as_json(scaling.*member); }, key.member));
  return settings;
}

std::int64_t rotated_channels(const RopeConfig& config) {
  return config.rotary_dim == 0 ? config.head_dim : config.rotary_dim;
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

void validate(const RopeConfig& config) {
  check_sizes(config);
  check_axes(config);
  const RopeType& type = rope_type(config.scaling.type);
  check_keys(config, type);
  type.check(config);
}

RopeFrequencies rope_frequencies(const RopeConfig& config, std::int64_t length) {
  validate(config);
  PHASOR_CHECK(length >= 0, kName, "length: ", length, ", expected 0 or more");
  const bool two_axes = config.axes == AxisLayout::axial || config.axes == AxisLayout::alternating;
  RopeFrequencies result =
      two_axes ? two_axis_frequencies(config) : rope_type(config.scaling.type).frequencies(config, length);
  check_result(config, result);
  return result;
}

std::int64_t axis_count(const RopeConfig& config) {
  switch (config.axes) {
    case AxisLayout::single:
      return 1;
    case AxisLayout::axial:
    case AxisLayout::alternating:
      return 2;
    default:
      return 3;
  }
}

double rope_score_scale(const RopeConfig& config, std::int64_t head_dim) {
  PHASOR_CHECK(head_dim >= 1, "rope_score_scale", "head_dim: ", head_dim, ", expected 1 or more");
  const double plain = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const RopeScaling& scaling = config.scaling;
  if (!config.scores_follow_mscale || scaling.mscale_all_dim.value_or(0.0) == 0.0) return plain;
  const double magnitude = yarn_magnitude(scaling.factor.value_or(1.0), *scaling.mscale_all_dim);
  return plain * magnitude * magnitude;
}

}  // namespace phasor
