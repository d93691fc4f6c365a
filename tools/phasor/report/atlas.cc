#include "report/atlas.h"

#include <utility>

#include "phasor/core/check.h"
#include "phasor/position/sinusoidal.h"
#include "report/numbers.h"

namespace phasor::report {

AtlasRope plain_rope() {
  RopeConfig rope;
  rope.head_dim = 64;
  rope.max_position_embeddings = 2048;
  return {"", rope};
}

std::vector<AtlasRope> rotating_layers(const HuggingFaceRope& model) {
  std::vector<AtlasRope> ropes;
  for (const LayerRope& layer : model.layers)
    if (layer.rope) ropes.push_back({layer.layer_type, *layer.rope});
  PHASOR_CHECK(!ropes.empty(), "rotating_layers", "config: no layer rotates, expected rotary position embeddings");
  return ropes;
}

std::int64_t original_context(const RopeConfig& rope) {
  constexpr std::int64_t kUsual = 2048;
  const std::int64_t given = rope.scaling.original_max_position_embeddings.value_or(rope.max_position_embeddings);
  return given > 0 ? given : kUsual;
}

RopeConfig without_scaling(const RopeConfig& rope) {
  RopeConfig plain = rope;
  plain.scaling = {};
  if (rope.scaling.type == "proportional") plain.rotary_dim = 0;  // it takes its frequencies from the whole head
  return plain;
}

Section sinusoidal_section() {
  constexpr std::int64_t kPositions = 100, kDim = 64;
  const Tensor<float, 2> table = sinusoidal_table(kPositions, kDim);
  HeatMap map{.title = "The table, position by dimension",
              .values = {kPositions, kDim, std::vector<double>(table.begin(), table.end())},
              .x = {.label = "dimension"},
              .y = {.label = "position"},
              .value_label = "value added to the embedding",
              .colours = ColourMap::diverging,
              .low = -1.0,
              .high = 1.0};
  LineChart curves{.title = "Six of its dimensions",
                   .x = {.label = "position"},
                   .y = {.label = "value", .first = -1.0, .last = 1.0},
                   .series = {}};
  for (const std::int64_t dimension : {0, 1, 10, 11, 30, 31}) {
    Series series{"dimension " + std::to_string(dimension), {}};
    for (std::int64_t position = 0; position < kPositions; position++)
      series.points.push_back({static_cast<double>(position), table(position, dimension)});
    curves.series.push_back(std::move(series));
  }
  return {
      "sinusoidal", "Sinusoidal positions",
      "Each position gets a row of sines and cosines, added to the token embedding (64 dimensions here).",
      gallery({figure_of("sinusoidal-map",
                         "On the left the waves are short and change with every position; to the right they are so "
                         "long that a hundred positions hardly move them. Together they name each position.",
                         map),
               figure_of("sinusoidal-curves",
                         "Neighbouring dimensions 2i and 2i + 1 are the sine and cosine of the same wave; waves get "
                         "longer as the dimension grows.",
                         curves)})};
}

std::vector<Section> atlas_sections(const std::vector<AtlasRope>& ropes) {
  PHASOR_CHECK(!ropes.empty(), "atlas_sections", "ropes: none, expected at least one");
  std::vector<Section> sections{sinusoidal_section()};
  for (std::size_t i = 0; i < ropes.size(); i++) sections.push_back(rope_section(ropes[i], i));
  sections.push_back(scaling_section(ropes[0].rope));
  sections.push_back(bias_section());
  return sections;
}

std::string atlas_page(const std::string& subject, const std::vector<AtlasRope>& ropes) {
  return page("An atlas of position encodings",
              "What sinusoidal positions, rotary embeddings (of " + subject +
                  ") and attention biases look like. Pictures tell their values when pointed at.",
              atlas_sections(ropes));
}

}  // namespace phasor::report
