#include "phasor/position/learned.h"

#include <algorithm>
#include <string>

#include "encoding_json.h"
#include "encoding_rows.h"
#include "phasor/core/check.h"
#include "phasor/core/random.h"

namespace phasor {

static void fields(auto& archive, Is<LearnedConfig> auto& of) {
  archive("max_length", of.max_length);
  archive("initial_deviation", of.initial_deviation);
}

namespace {

Shape<2> table_shape(const LearnedConfig& config, const ModelShape& shape) {
  constexpr std::int64_t kMost = 1 << 20;
  PHASOR_CHECK(config.max_length >= 1 && config.max_length <= kMost, "learned", "max_length: ", config.max_length,
               ", expected 1 to ", kMost);
  PHASOR_CHECK(shape.model_dim >= 1, "learned", "shape.model_dim: ", shape.model_dim, ", expected 1 or more");
  return {config.max_length, shape.model_dim};
}

std::vector<Weight> learned_parameters(const EncodingConfig& config, const ModelShape& shape, std::uint64_t seed) {
  const auto& learned = config.as<LearnedConfig>();
  std::vector<Weight> table = one_weight("table", table_shape(learned, shape));
  Philox(seed).fill_normal(table[0].value(), 0.0f, learned.initial_deviation);
  return table;
}

// Calls visit(b, t, row) with the table's row for every query.
template <class Visit>
void for_each_token(const LearnedConfig& config, const Placement& placement, const Visit& visit) {
  const auto& positions = placement.queries;
  PHASOR_CHECK(positions.shape[0] == 1, "learned", "positions: ", positions.shape[0], " axes, expected 1");
  for (std::int64_t b = 0; b < positions.shape[1]; b++)
    for (std::int64_t t = 0; t < positions.shape[2]; t++) {
      const std::int64_t position = positions(0, b, t);
      PHASOR_CHECK(position >= 0 && position < config.max_length, "learned", "position: ", position, ", expected 0 to ",
                   config.max_length - 1, ", since the table has ", config.max_length, " rows");
      visit(b, t, position);
    }
}

PositionPlan learned_lower(const EncodingConfig& config, std::span<const Weight> weights, const Placement& placement) {
  const auto& learned = config.as<LearnedConfig>();
  const Shape<2> shape = table_shape(learned, placement.shape);
  const TensorView<const float, 2> table = only_weight("learned", weights, shape);
  Tensor<float, 3> add({placement.queries.shape[1], placement.queries.shape[2], shape[1]});
  for_each_token(learned, placement, [&](std::int64_t b, std::int64_t t, std::int64_t row) {
    std::copy_n(&table(row, 0), shape[1], &add(b, t, 0));
  });
  PositionPlan plan;
  plan.add = std::move(add);
  plan.score_scale = plain_score_scale(placement.shape);
  return plan;
}

// d table[row] += d add[b, t] of every token at position `row`.
void learned_backward(const EncodingConfig& config, std::span<Weight> weights, const Placement& placement,
                      const PlanGradient& gradient) {
  const auto& learned = config.as<LearnedConfig>();
  only_weight("learned", weights, table_shape(learned, placement.shape));
  const std::int64_t width = placement.shape.model_dim;
  const Shape<3> expected{placement.queries.shape[1], placement.queries.shape[2], width};
  PHASOR_CHECK(gradient.add.has_value(), "lower_backward", "learned: gradient.add is missing, expected shape ",
               shape_text(expected));
  PHASOR_CHECK(gradient.add->shape() == expected, "lower_backward", "learned: gradient.add of shape ",
               shape_text(gradient.add->shape()), ", expected ", shape_text(expected));
  const TensorView<float, 2> d_table = weights[0].gradient_matrix();
  for_each_token(learned, placement, [&](std::int64_t b, std::int64_t t, std::int64_t row) {
    for (std::int64_t c = 0; c < width; c++) d_table(row, c) += (*gradient.add)(b, t, c);
  });
}

}  // namespace

constinit const Encoding kLearned{
    .name = LearnedConfig::kEncoding,
    .formula = "x + table[position]",
    .acts_on = "token embeddings",
    .source = "Gehring et al. 2017, arXiv 1705.03122",
    .gradient = "table: scatter-add of the embeddings' gradient",
    .defaults = [](const ModelShape& shape) -> EncodingConfig {
      LearnedConfig config{.max_length = shape.max_length};
      if (shape.embedding_deviation) config.initial_deviation = static_cast<float>(*shape.embedding_deviation);
      return config;
    },
    .longest = [](const EncodingConfig& config) -> std::optional<std::int64_t> {
      return config.as<LearnedConfig>().max_length;
    },
    .learns = always_learns,
    .parameters = learned_parameters,
    .lower = learned_lower,
    .lower_backward = learned_backward,
    .describe = [](const EncodingConfig& config) -> std::string {
      return "learned table of " + std::to_string(config.as<LearnedConfig>().max_length) + " positions";
    },
    .write = write_settings<LearnedConfig>,
    .read = read_settings<LearnedConfig>,
};

}  // namespace phasor
