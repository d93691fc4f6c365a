#include "phasor/position/relative.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "encoding_json.h"
#include "encoding_rows.h"
#include "phasor/core/check.h"

namespace phasor {

static void fields(auto& archive, Is<T5Config> auto& of) {
  archive("buckets", of.buckets);
  archive("max_distance", of.max_distance);
  archive("bidirectional", of.bidirectional);
}

static void fields(auto& archive, Is<RelativeConfig> auto& of) { archive("max_distance", of.max_distance); }

namespace {

// Both encodings read a trainable table by distance; they differ in which entry a head and a distance read.
// `entry(h, distance)` gives its (row, column), the same for all distances past `reach`: the table of the plan ends
// there, and its ends serve those beyond.

DistanceRange distances_within(std::string_view name, const Placement& placement, std::int64_t reach) {
  const DistanceRange all = distances(name, placement);
  const std::int64_t first = std::clamp(all.first, -reach, reach);
  const std::int64_t last = std::clamp(all.first + all.count - 1, -reach, reach);
  return {first, last - first + 1};
}

template <class Entry>
RelativeBias gather(const TensorView<const float, 2>& table, const Placement& placement, std::string_view name,
                    std::int64_t reach, const Entry& entry) {
  const DistanceRange range = distances_within(name, placement, reach);
  RelativeBias bias{Tensor<float, 2>({placement.shape.heads, range.count}), range.first};
  for_each_bias(placement.shape, range, [&](std::int64_t h, std::int64_t i) {
    const auto [row, column] = entry(h, range.first + i);
    bias.table(h, i) = table(row, column);
  });
  return bias;
}

template <class Entry>
void scatter_add(const PlanGradient& gradient, const Placement& placement, std::string_view name, std::int64_t reach,
                 const Entry& entry, Weight& weight) {
  const DistanceRange range = distances_within(name, placement, reach);
  const Tensor<float, 2>& d_bias = bias_gradient(name, gradient, placement.shape, range);
  Tensor<double, 2> sum(weight.matrix().shape);  // thousands of distances may share an entry
  for_each_bias(placement.shape, range, [&](std::int64_t h, std::int64_t i) {
    const auto [row, column] = entry(h, range.first + i);
    sum(row, column) += d_bias(h, i);
  });
  float* gradients = weight.gradient().data();
  for (std::int64_t i = 0; i < sum.size(); i++) gradients[i] += static_cast<float>(sum.data()[i]);
}

// ---- T5 ----

void check(const T5Config& config) {
  const std::int64_t directions = config.bidirectional ? 2 : 1;
  PHASOR_CHECK(config.buckets >= 2 * directions && config.buckets % (2 * directions) == 0 && config.buckets <= 1 << 20,
               "t5", "buckets: ", config.buckets, ", expected a multiple of ", 2 * directions);
  PHASOR_CHECK(config.max_distance > config.buckets / directions / 2, "t5", "max_distance: ", config.max_distance,
               ", expected above ", config.buckets / directions / 2, ", the distances with a bucket each");
}

Shape<2> t5_shape(const T5Config& config, const ModelShape& shape) {
  check(config);
  return {config.buckets, shape.heads};
}

auto t5_entry(const T5Config& config) {
  return [config](std::int64_t h, std::int64_t distance) { return std::pair(t5_bucket(distance, config), h); };
}

// ---- learned relative ----

Shape<2> relative_shape(const RelativeConfig& config, const ModelShape& shape) {
  PHASOR_CHECK(config.max_distance >= 0 && config.max_distance <= 1 << 20, "relative",
               "max_distance: ", config.max_distance, ", expected 0 to 2^20");
  return {shape.heads, 2 * config.max_distance + 1};
}

auto relative_entry(const RelativeConfig& config) {
  return [reach = config.max_distance](std::int64_t h, std::int64_t distance) {
    return std::pair(h, std::clamp(distance, -reach, reach) + reach);
  };
}

}  // namespace

std::int64_t t5_bucket(std::int64_t distance, const T5Config& config) {
  check(config);
  const std::int64_t buckets = config.bidirectional ? config.buckets / 2 : config.buckets;
  distance = std::clamp(distance, -config.max_distance, config.max_distance);  // beyond, nothing changes
  const std::int64_t later = config.bidirectional && distance > 0 ? buckets : 0;
  const std::int64_t away = config.bidirectional ? std::abs(distance) : std::max<std::int64_t>(-distance, 0);
  const std::int64_t exact = buckets / 2;
  if (away < exact) return later + away;
  const double way = std::log(static_cast<double>(away) / static_cast<double>(exact)) /
                     std::log(static_cast<double>(config.max_distance) / static_cast<double>(exact));
  const auto shared = exact + static_cast<std::int64_t>(way * static_cast<double>(buckets - exact));
  return later + std::min(shared, buckets - 1);
}

constinit const Encoding kT5{
    .name = T5Config::kEncoding,
    .formula = "s + table[bucket(distance), h], no 1/sqrt(D)",
    .acts_on = "scores",
    .source = "Raffel et al. 2019, arXiv 1910.10683",
    .gradient = "table: scatter-add of dS by bucket",
    .defaults = [](const ModelShape& shape) -> EncodingConfig { return T5Config{.bidirectional = !shape.causal}; },
    .longest = any_length,
    .learns = always_learns,
    .parameters = [](const EncodingConfig& config, const ModelShape& shape,
                     std::uint64_t) { return one_weight("buckets", t5_shape(config.as<T5Config>(), shape)); },
    .lower =
        [](const EncodingConfig& config, std::span<const Weight> weights, const Placement& placement) {
          const auto& t5 = config.as<T5Config>();
          const TensorView<const float, 2> table = only_weight("t5", weights, t5_shape(t5, placement.shape));
          PositionPlan plan;
          plan.bias = gather(table, placement, "t5", t5.max_distance, t5_entry(t5));
          plan.score_scale = 1.0;
          return plan;
        },
    .lower_backward =
        [](const EncodingConfig& config, std::span<Weight> weights, const Placement& placement,
           const PlanGradient& gradient) {
          const auto& t5 = config.as<T5Config>();
          only_weight("t5", weights, t5_shape(t5, placement.shape));
          scatter_add(gradient, placement, "t5", t5.max_distance, t5_entry(t5), weights[0]);
        },
    .describe = [](const EncodingConfig& config) -> std::string {
      const auto& t5 = config.as<T5Config>();
      return std::to_string(t5.buckets) + (t5.bidirectional ? " bidirectional" : " causal") +
             " buckets up to distance " + std::to_string(t5.max_distance);
    },
    .write = write_settings<T5Config>,
    .read = read_settings<T5Config>,
};

constinit const Encoding kRelative{
    .name = RelativeConfig::kEncoding,
    .formula = "s + table[h, clamp(distance)]",
    .acts_on = "scores",
    .source = "after Shaw et al. 2018, arXiv 1803.02155",
    .gradient = "table: sum of dS along diagonals",
    .defaults = [](const ModelShape&) -> EncodingConfig { return RelativeConfig{}; },
    .longest = any_length,
    .learns = always_learns,
    .parameters = [](const EncodingConfig& config, const ModelShape& shape,
                     std::uint64_t) { return one_weight("table", relative_shape(config.as<RelativeConfig>(), shape)); },
    .lower =
        [](const EncodingConfig& config, std::span<const Weight> weights, const Placement& placement) {
          const auto& relative = config.as<RelativeConfig>();
          const TensorView<const float, 2> table =
              only_weight("relative", weights, relative_shape(relative, placement.shape));
          PositionPlan plan;
          plan.bias = gather(table, placement, "relative", relative.max_distance, relative_entry(relative));
          plan.score_scale = plain_score_scale(placement.shape);
          return plan;
        },
    .lower_backward =
        [](const EncodingConfig& config, std::span<Weight> weights, const Placement& placement,
           const PlanGradient& gradient) {
          const auto& relative = config.as<RelativeConfig>();
          only_weight("relative", weights, relative_shape(relative, placement.shape));
          scatter_add(gradient, placement, "relative", relative.max_distance, relative_entry(relative), weights[0]);
        },
    .describe = [](const EncodingConfig& config) -> std::string {
      return "learned bias for distances up to " + std::to_string(config.as<RelativeConfig>().max_distance);
    },
    .write = write_settings<RelativeConfig>,
    .read = read_settings<RelativeConfig>,
};

}  // namespace phasor
