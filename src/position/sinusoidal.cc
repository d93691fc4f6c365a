#include "phasor/position/sinusoidal.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>
#include <utility>

#include "encoding_json.h"
#include "encoding_rows.h"
#include "phasor/core/check.h"
#include "phasor/position/rope.h"

namespace phasor {
namespace {

// The angles are those of RoPE; only the order (sines first) and the use differ. [B, T, dim]
Tensor<float, 3> sines_and_cosines(TensorView<const std::int64_t, 3> positions, std::int64_t dim,
                                   const SinusoidalConfig& config) {
  PHASOR_CHECK(dim >= 2 && dim % 2 == 0, "sinusoidal", "dim: ", dim, ", expected an even number of at least 2");
  PHASOR_CHECK(config.amplitude > 0.0 && std::isfinite(config.amplitude), "sinusoidal", "amplitude: ", config.amplitude,
               ", expected more than 0 and finite");
  const AdjacentTable table =
      adjacent_table({.head_dim = dim, .theta = config.theta, .pairing = Pairing::adjacent}, positions);
  const auto amplitude = static_cast<float>(config.amplitude);
  Tensor<float, 3> result({positions.shape[1], positions.shape[2], dim});
  const bool adjacent = config.pairing == Pairing::adjacent;
  const std::int64_t pairs = dim / 2;
  for (std::int64_t i = 0; i < table.cos.size(); i++) {
    const std::int64_t row = i / pairs * dim, pair = i % pairs;
    result.data()[row + (adjacent ? 2 * pair : pair)] = amplitude * table.sin.data()[i];
    result.data()[row + (adjacent ? 2 * pair + 1 : pairs + pair)] = amplitude * table.cos.data()[i];
  }
  return result;
}

PositionPlan sinusoidal_lower(const EncodingConfig& config, std::span<const Weight>, const Placement& placement) {
  PositionPlan plan;
  plan.add = sines_and_cosines(placement.queries, placement.shape.model_dim, config.as<SinusoidalConfig>());
  plan.score_scale = plain_score_scale(placement.shape);
  return plan;
}

}  // namespace

Tensor<float, 2> sinusoidal_table(std::int64_t length, std::int64_t dim, double theta) {
  PHASOR_CHECK(length >= 0, "sinusoidal", "length: ", length, ", expected 0 or more");
  const Tensor<std::int64_t, 3> positions = consecutive_positions(length);
  const Tensor<float, 3> rows = sines_and_cosines(positions.view(), dim, {.theta = theta});
  Tensor<float, 2> table({length, dim});
  std::copy(rows.begin(), rows.end(), table.begin());
  return table;
}

static void fields(auto& archive, Is<SinusoidalConfig> auto& of) {
  archive("theta", of.theta);
  archive.since("amplitude", of.amplitude, 1.0);
  archive.since("pairing", of.pairing, Pairing::adjacent);
}

constinit const Encoding kSinusoidal{
    .name = SinusoidalConfig::kEncoding,
    .formula = "x + a PE, PE(p, 2i) = sin(p theta^(-2i/C)), PE(p, 2i+1) = cos(same)",
    .acts_on = "token embeddings",
    .source = "Vaswani et al. 2017, arXiv 1706.03762",
    .gradient = "none",
    .defaults = [](const ModelShape& shape) -> EncodingConfig {
      SinusoidalConfig config;
      // The root of the mean square of a sine is 1/sqrt(2).
      if (shape.embedding_deviation) config.amplitude = std::numbers::sqrt2 * *shape.embedding_deviation;
      return config;
    },
    .longest = any_length,
    .learns = never_learns,
    .parameters = no_parameters,
    .lower = sinusoidal_lower,
    .lower_backward = no_gradient,
    .describe = [](const EncodingConfig& config) -> std::string {
      std::ostringstream text;
      const auto& sinusoidal = config.as<SinusoidalConfig>();
      text << "sines and cosines, theta " << sinusoidal.theta;
      if (sinusoidal.pairing == Pairing::half) text << ", sines first";
      if (sinusoidal.amplitude != 1.0) text << ", amplitude " << sinusoidal.amplitude;
      return text.str();
    },
    .write = write_settings<SinusoidalConfig>,
    .read = read_settings<SinusoidalConfig>,
};

}  // namespace phasor
