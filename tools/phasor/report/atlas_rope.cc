// Pictures of one rotary embedding, and of what scalings make of its frequencies.
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

#include "report/atlas.h"
#include "report/numbers.h"
#include "table.h"

namespace phasor::report {
namespace {

// Something of each pair: its frequency, its wavelength.
template <class Value>
Series by_pair(std::string name, const RopeFrequencies& frequencies, const Value& value) {
  Series series{std::move(name), {}};
  for (std::size_t i = 0; i < frequencies.inv_freq.size(); i++)
    series.points.push_back({static_cast<double>(i), value(frequencies.inv_freq[i])});
  return series;
}

double wavelength(double inv_freq) { return 2.0 * std::numbers::pi / inv_freq; }  // infinite: not rotated, not drawn

// The scaled frequencies first, then the plain ones where they differ.
template <class Value>
std::vector<Series> scaled_and_plain(const RopeConfig& rope, const Value& value) {
  const bool scaled = rope.scaling.type != "default";
  std::vector<Series> series{
      by_pair(scaled ? rope.scaling.type : "RoPE", rope_frequencies(rope, original_context(rope)), value)};
  if (scaled) series.push_back(by_pair("without scaling", rope_frequencies(without_scaling(rope)), value));
  return series;
}

Figure frequencies_figure(const RopeConfig& rope, const std::string& id) {
  const LineChart chart{.title = "Frequency of each pair (inv_freq)",
                        .x = {.label = "pair of dimensions"},
                        .y = {.label = "radians per position", .log = true},
                        .series = scaled_and_plain(rope, [](double w) { return w; })};
  return figure_of(
      id + "-frequencies",
      "Pair 0 rotates by one radian per token, the last pairs hardly at all; a straight line here means each "
      "pair is slower than the one before by the same ratio.",
      chart);
}

Figure angles_figure(const RopeConfig& rope, const std::string& id) {
  const RopeFrequencies frequencies = rope_frequencies(rope, original_context(rope));
  LineChart chart{.title = "Angles of positions 0, 1, 4 and 8",
                  .x = {.label = "pair of dimensions"},
                  .y = {.label = "angle in radians"},
                  .series = {}};
  for (const int position : {0, 1, 4, 8})
    chart.series.push_back(by_pair("position " + std::to_string(position), frequencies,
                                   [&](double w) { return static_cast<double>(position) * w; }));
  return figure_of(
      id + "-angles",
      "The angle by which q and k are rotated grows with the position, fast in the first pairs and slowly in "
      "the last. Only the difference between two tokens' angles enters their score.",
      chart);
}

// Positions 0, 1, ... of text, which stands at the same place on every axis.
Tensor<std::int64_t, 3> same_on_all_axes(std::int64_t axes, std::int64_t count) {
  Tensor<std::int64_t, 3> positions({axes, 1, count});
  for (std::int64_t axis = 0; axis < axes; axis++)
    for (std::int64_t t = 0; t < count; t++) positions(axis, 0, t) = t;
  return positions;
}

// similarity(i, j): the mean over pairs of cos_i cos_j + sin_i sin_j.
class Similarity {
 public:
  Similarity(const RopeConfig& rope, std::int64_t count)
      : positions_(same_on_all_axes(axis_count(rope), count)),
        table_(rotary_table(rope, positions_.view(), original_context(rope))) {}

  double operator()(std::int64_t i, std::int64_t j) const {
    const RotaryView view(table_);
    double sum = 0.0;
    for (std::int64_t pair = 0; pair < view.pairs(); pair++)
      sum += static_cast<double>(view.cos(0, 0, i, pair)) * view.cos(0, 0, j, pair) +
             static_cast<double>(view.sin(0, 0, i, pair)) * view.sin(0, 0, j, pair);
    return sum / static_cast<double>(view.pairs());
  }

 private:
  Tensor<std::int64_t, 3> positions_;
  AnyRotaryTable table_;
};

Figure similarity_figure(const RopeConfig& rope, const std::string& id) {
  constexpr std::int64_t kPositions = 100;
  const Similarity similarity(rope, kPositions);
  HeatMap map{.title = "Similarity of positions",
              .values = {kPositions, kPositions, {}},
              .x = {.label = "position"},
              .y = {.label = "position"},
              .value_label = "mean of cos·cos + sin·sin",
              .width = 290};
  for (std::int64_t i = 0; i < kPositions; i++)
    for (std::int64_t j = 0; j < kPositions; j++) map.values.values.push_back(similarity(i, j));
  return figure_of(id + "-similarity",
                   "The stripes follow the diagonal: similarity depends on the distance alone, wherever the two tokens "
                   "stand. That is what makes RoPE relative.",
                   map);
}

Figure table_figure(const RopeConfig& rope, const std::string& id) {
  constexpr std::int64_t kPositions = 100;
  const Tensor<std::int64_t, 3> positions = same_on_all_axes(axis_count(rope), kPositions);
  const AnyRotaryTable table = rotary_table(rope, positions.view(), original_context(rope));
  const RotaryView view(table);
  HeatMap map{.title = "Cosines of the first 100 positions",
              .values = {kPositions, static_cast<std::size_t>(view.pairs()), {}},
              .x = {.label = "pair of dimensions"},
              .y = {.label = "position"},
              .value_label = "cosine of the angle",
              .colours = ColourMap::diverging,
              .low = -1.0,
              .high = 1.0};
  for (std::int64_t t = 0; t < kPositions; t++)
    for (std::int64_t pair = 0; pair < view.pairs(); pair++) map.values.values.push_back(view.cos(0, 0, t, pair));
  return figure_of(
      id + "-table",
      "The first pairs swing back and forth with every few tokens and tell neighbours apart; the last ones "
      "barely leave 1 and tell the beginning of a text from its end.",
      map);
}

Figure decay_figure(const RopeConfig& rope, const std::string& id) {
  constexpr std::int64_t kFarthest = 512;
  const Similarity similarity(rope, kFarthest + 1);
  LineChart chart{.title = "Similarity by distance",
                  .x = {.label = "distance in tokens"},
                  .y = {.label = "mean of cos·cos + sin·sin"},
                  .series = {{"similarity", {}}}};
  for (std::int64_t distance = 0; distance <= kFarthest; distance++)
    chart.series[0].points.push_back({static_cast<double>(distance), similarity(0, distance)});
  return figure_of(id + "-decay",
                   "Near tokens look alike, far ones less so: a gentle bias towards what is near. The ripples are the "
                   "fast pairs, which come round again and again.",
                   chart);
}

Figure wavelengths_figure(const RopeConfig& rope, const std::string& id) {
  const auto original = static_cast<double>(original_context(rope));
  const auto longest = static_cast<double>(rope.max_position_embeddings);
  LineChart chart{.title = "Wavelength against context length",
                  .x = {.label = "pair of dimensions"},
                  .y = {.label = "tokens for a whole turn", .log = true},
                  .series = scaled_and_plain(rope, wavelength),
                  .y_marks = {{original, "context " + tool::count(original_context(rope))}}};
  if (longest > original)
    chart.y_marks.push_back({longest, "extended context " + tool::count(rope.max_position_embeddings)});
  return figure_of(
      id + "-wavelengths",
      "Pairs above the line never finish a turn within the context, so a longer text brings angles they were "
      "never trained on. Those below have seen every angle.",
      chart);
}

// What the longer context looks like to each scaling; a scaling that the config has itself keeps its settings.
std::vector<RopeConfig> scalings(const RopeConfig& rope, double factor) {
  RopeConfig plain = without_scaling(rope);
  plain.axes = AxisLayout::single;
  plain.sections = {};
  std::vector<RopeConfig> result{plain};
  const std::int64_t original = original_context(rope);
  const bool enough_pairs = (plain.rotary_dim == 0 ? plain.head_dim : plain.rotary_dim) > 2;  // NTK divides by d - 2
  bool own = rope.scaling.type == "default";
  for (RopeScaling scaling : {RopeScaling{.type = "linear"}, RopeScaling{.type = "ntk"},
                              RopeScaling{.type = "yarn", .original_max_position_embeddings = original},
                              RopeScaling{.type = "llama3",
                              .original_max_position_embeddings = original,
                              .low_freq_factor = 1.0,
                              .high_freq_factor = 4.0}}) {
    if (scaling.type == "ntk" && !enough_pairs) continue;
    scaling.factor = factor;
    result.push_back(plain);
    result.back().scaling = scaling;
    if (scaling.type != rope.scaling.type) continue;
    result.back() = rope;
    own = true;
  }
  if (!own) result.push_back(rope);
  return result;
}

std::string scaling_name(const RopeConfig& rope) {
  return rope.scaling.type == "default" ? "plain RoPE" : rope.scaling.type;
}

}  // namespace

Section rope_section(const AtlasRope& rope, std::size_t place) {
  const RopeConfig& config = rope.rope;
  const std::string id = place == 0 ? "rope" : "rope-" + std::to_string(place + 1);
  const std::int64_t channels = config.rotary_dim == 0 ? config.head_dim : config.rotary_dim;
  const std::string type = config.scaling.type == "default" ? "" : ", scaling " + config.scaling.type;
  return {id, rope.name.empty() ? "Rotary embedding (RoPE)" : "Rotary embedding of " + rope.name,
          "Each pair of dimensions of q and k is rotated by an angle that grows with the position. Here: " +
              std::to_string(channels) + " of " + std::to_string(config.head_dim) + " dimensions of a head, theta " +
              number_text(config.theta, 8) + type + ", context " + tool::count(original_context(config)) + " tokens.",
          gallery({frequencies_figure(config, id), wavelengths_figure(config, id), angles_figure(config, id),
                   table_figure(config, id), similarity_figure(config, id), decay_figure(config, id)})};
}

Section scaling_section(const RopeConfig& rope) {
  constexpr double kUsualFactor = 8.0;
  const double given = rope.scaling.factor.value_or(kUsualFactor);
  const double factor = given > 1.0 ? given : kUsualFactor;
  const auto longer = static_cast<std::int64_t>(factor * static_cast<double>(original_context(rope)));
  const RopeFrequencies plain = rope_frequencies(without_scaling(rope));
  LineChart ratios{.title = "Frequencies against plain RoPE",
                   .x = {.label = "pair of dimensions"},
                   .y = {.label = "frequency, as a share of the plain one", .first = 0.0},
                   .series = {}};
  LineChart waves{.title = "Wavelengths after scaling",
                  .x = {.label = "pair of dimensions"},
                  .y = {.label = "tokens for a whole turn", .log = true},
                  .series = {},
                  .y_marks = {{static_cast<double>(original_context(rope)), "context"},
                              {static_cast<double>(longer), "longer context"}}};
  for (const RopeConfig& scaled : scalings(rope, factor)) {
    const RopeFrequencies frequencies = rope_frequencies(scaled, longer);
    Series ratio{scaling_name(scaled), {}};
    for (std::size_t i = 0; i < frequencies.inv_freq.size(); i++)
      ratio.points.push_back({static_cast<double>(i), frequencies.inv_freq[i] / plain.inv_freq[i]});
    ratios.series.push_back(std::move(ratio));
    waves.series.push_back(by_pair(scaling_name(scaled), frequencies, wavelength));
  }
  return {
      "scalings", "Longer contexts",
      "From " + tool::count(original_context(rope)) + " to " + tool::count(longer) + " tokens, a factor of " +
          number_text(factor) + ": what each scaling does to the frequencies.",
      gallery({figure_of("scaling-ratios",
                         "Linear slows every pair by the same factor. NTK slows the last pairs most. YaRN and Llama 3 "
                         "leave the fast "
                         "pairs as they are, slow the slow ones by the whole factor and blend between.",
                         ratios),
               figure_of("scaling-wavelengths",
                         "A scaling lifts the slow pairs, so that the longer context turns them no further than the "
                         "shorter one did in training.",
                         waves)})};
}

}  // namespace phasor::report
