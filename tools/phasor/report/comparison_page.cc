// The page of a comparison: ranking, training, lengths, attention, the encodings' own pictures, what was run.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "report/atlas.h"
#include "report/comparison.h"
#include "report/markup.h"
#include "report/numbers.h"

namespace phasor::report {
namespace {

// ---- ranking ----

// How far a score lies between the worst and the best of the table, 0 .. 1: the depth of its tint.
class Tint {
 public:
  explicit Tint(const Comparison& comparison) : higher_is_better_(comparison.settings.higher_is_better) {
    for (const EncodingResult& encoding : comparison.encodings)
      for (const LengthScore& score : encoding.scores) {
        low_ = std::fmin(low_, spread(score.by_seed).mean);
        high_ = std::fmax(high_, spread(score.by_seed).mean);
      }
  }
  double operator()(double mean) const {
    if (!(high_ > low_) || std::isnan(mean)) return 0.0;
    const double share = (mean - low_) / (high_ - low_);
    return higher_is_better_ ? share : 1.0 - share;
  }

 private:
  bool higher_is_better_;
  double low_ = std::nan(""), high_ = low_;
};

std::string score_cell(const LengthScore* score, const Tint& tint, bool best) {
  if (score == nullptr) return element("td", {{"class", "number none"}}, "–");
  if (score->not_possible)
    return element("td", {{"class", "number none"}, {"title", *score->not_possible}}, "not possible");
  const Spread found = spread(score->by_seed);
  std::string text = escape(score_text(found.mean));
  if (found.deviation) text += element("span", {{"class", "spread"}}, escape("± " + score_text(*found.deviation)));
  return element(
      "td",
      {{"class", best ? "number score best" : "number score"}, {"style", "--share:" + coordinate(tint(found.mean))}},
      text);
}

// The best mean at a length.
std::optional<double> best_at(const Comparison& comparison, std::int64_t length) {
  std::optional<double> best;
  for (const EncodingResult& encoding : comparison.encodings) {
    const LengthScore* score = score_at(encoding, length);
    if (score == nullptr || score->by_seed.empty()) continue;
    const double mean = spread(score->by_seed).mean;
    const bool better = best && (comparison.settings.higher_is_better ? mean > *best : mean < *best);
    if (!std::isnan(mean) && (!best || better)) best = mean;
  }
  return best;
}

std::string ranking_head(const Comparison& comparison) {
  const auto number = [](const std::string& text) { return element("th", {{"class", "number"}}, escape(text)); };
  std::string cells = number("#") + element("th", {}, "encoding") + element("th", {}, "scores");
  for (const std::int64_t length : comparison.settings.eval_lengths)
    cells +=
        element("th", {{"class", "number"}},
                escape("at " + tool::count(length)) +
                    (length == comparison.settings.length ? element("span", {{"class", "trained"}}, "trained") : ""));
  return element("tr", {}, cells + number("parameters") + number("tokens/s") + number("peak memory"));
}

std::string ranking_row(const Comparison& comparison, const EncodingResult& encoding, std::size_t rank,
                        const Tint& tint) {
  const auto number = [](const std::string& text) { return element("td", {{"class", "number"}}, escape(text)); };
  std::string cells = number(std::to_string(rank)) + element("td", {}, escape(encoding.name)) +
                      element("td", {}, escape(encoding.attention_score));
  for (const std::int64_t length : comparison.settings.eval_lengths) {
    const LengthScore* score = score_at(encoding, length);
    const bool best =
        score != nullptr && !score->by_seed.empty() && best_at(comparison, length) == spread(score->by_seed).mean;
    cells += score_cell(score, tint, best);
  }
  cells += number(tool::count(encoding.parameters)) + number(number_text(std::round(encoding.tokens_per_second))) +
           number(megabytes_text(encoding.peak_memory_bytes) + " MB");
  return element("tr", {}, cells);
}

Section ranking_section(const Comparison& comparison) {
  const Tint tint(comparison);
  std::string rows, notes;
  std::size_t rank = 0;
  for (const std::size_t i : ranking(comparison))
    rows += ranking_row(comparison, comparison.encodings[i], ++rank, tint);
  for (const std::string& note : ranking_notes(comparison)) notes += element("li", {}, escape(note));
  const std::string table =
      element("div", {{"class", "table"}, {"tabindex", "0"}},
              element("table", {}, element("thead", {}, ranking_head(comparison)) + element("tbody", {}, rows)));
  const Settings& settings = comparison.settings;
  return {
      "ranking", "Ranking",
      "Mean " + settings.metric + (settings.seeds.size() > 1 ? " ± sample standard deviation over seeds; " : "; ") +
          (settings.higher_is_better ? "higher" : "lower") +
          " is better, the best of a column is bold. Ranked at the longest length; equals, and those without a score "
          "there, at the next shorter one.",
      element("div", {{"class", "ranking"}}, table) +
          (notes.empty() ? "" : element("ul", {{"class", "notes"}}, notes))};
}

// ---- charts ----

// A band of one standard deviation on both sides.
void add_band(const Spread& found, Point& point) {
  if (!found.deviation) return;
  point.low = found.mean - *found.deviation;
  point.high = found.mean + *found.deviation;
}

// Mean and band over the runs of a value at each step, where there is one.
std::vector<Point> over_runs(const std::vector<Run>& runs,
                             const std::function<std::optional<double>(const LossPoint&)>& value) {
  constexpr std::size_t kMost = 120;
  std::map<std::int64_t, std::vector<double>> by_step;
  for (const Run& run : runs)
    for (const LossPoint& point : run.losses)
      if (const std::optional<double> loss = value(point)) by_step[point.step].push_back(*loss);
  std::vector<Point> points;
  for (const auto& [step, losses] : by_step) {
    const Spread found = spread(losses);
    Point point{static_cast<double>(step), found.mean};
    add_band(found, point);
    points.push_back(point);
  }
  return thinned(points, kMost);
}

// A series for each encoding that has points; its place among the encodings is its style in all charts.
std::vector<Series> by_encoding(const Comparison& comparison,
                                const std::function<std::vector<Point>(const EncodingResult&)>& points) {
  std::vector<Series> series;
  for (std::size_t i = 0; i < comparison.encodings.size(); i++) {
    Series one{comparison.encodings[i].name, points(comparison.encodings[i]), i};
    if (!one.points.empty()) series.push_back(std::move(one));
  }
  return series;
}

void add_unless_empty(std::vector<Figure>& figures, std::string id, std::string text, const LineChart& chart) {
  if (!chart.series.empty()) figures.push_back(figure_of(std::move(id), std::move(text), chart));
}

Section training_section(const Comparison& comparison) {
  std::vector<Figure> figures;
  const auto losses = [&](const auto& value) {
    return by_encoding(comparison, [&](const EncodingResult& encoding) { return over_runs(encoding.runs, value); });
  };
  add_unless_empty(
      figures, "train-loss",
      "Loss on the data it learns from, the mean of neighbouring steps and over seeds; the band is one sample "
      "standard deviation over seeds.",
      {.title = "Training loss",
       .x = {.label = "step"},
       .y = {.label = "loss", .log = true},
       .series = losses([](const LossPoint& p) { return std::optional<double>(p.train_loss); })});
  add_unless_empty(figures, "validation-loss", "Loss on data it never saw, at the training length.",
                   {.title = "Validation loss",
                    .x = {.label = "step"},
                    .y = {.label = "loss", .log = true},
                    .series = losses([](const LossPoint& p) { return p.validation_loss; })});
  return {"training", "Training", "The same model, data order and steps; only the encoding differs.", gallery(figures)};
}

std::vector<Point> length_points(const EncodingResult& encoding) {
  std::vector<Point> points;
  for (const LengthScore& score : encoding.scores) {
    if (score.by_seed.empty()) continue;
    const Spread found = spread(score.by_seed);
    Point point{static_cast<double>(score.length), found.mean};
    add_band(found, point);
    points.push_back(point);
  }
  std::ranges::sort(points, {}, &Point::x);
  return points;
}

std::vector<Point> position_points(const EncodingResult& encoding) {
  constexpr std::size_t kMost = 64;
  std::vector<Point> points;
  if (encoding.by_position)
    for (const PositionScore& score : encoding.by_position->scores)
      points.push_back({static_cast<double>(score.position), score.score});
  std::ranges::sort(points, {}, &Point::x);
  return thinned(points, kMost);
}

Section lengths_section(const Comparison& comparison) {
  const Settings& settings = comparison.settings;
  const Mark trained{static_cast<double>(settings.length), "trained at " + tool::count(settings.length)};
  std::vector<Mark> chance;
  if (settings.chance) chance.push_back({*settings.chance, "chance"});
  const std::vector<double> ticks(settings.eval_lengths.begin(), settings.eval_lengths.end());
  std::vector<Figure> figures;
  add_unless_empty(
      figures, "score-by-length",
      "Left of the marked length the model knows the distances, right of it they are new. A line that stays "
      "level carries over; one that ends cannot go further.",
      {.title = "Score against length",
       .x = {.label = "length in tokens", .log = true, .ticks = ticks},
       .y = {.label = settings.metric},
       .series = by_encoding(comparison, length_points),
       .x_marks = {trained},
       .y_marks = chance});
  add_unless_empty(figures, "score-by-position",
                   "Within sequences of the longest length that is possible: where the score breaks off, the encoding "
                   "stops working. Points are means of neighbouring positions.",
                   {.title = "Score by position",
                    .x = {.label = "position"},
                    .y = {.label = settings.metric},
                    .series = by_encoding(comparison, position_points),
                    .x_marks = {trained},
                    .y_marks = chance});
  return {"lengths", "Beyond the training length", "", gallery(figures)};
}

// ---- attention ----

std::string head_name(const AttentionMap& map) {
  return "layer " + std::to_string(map.layer) + ", head " + std::to_string(map.head);
}

std::string token_name(const Comparison& comparison, std::int64_t position) {
  const auto i = static_cast<std::size_t>(position);
  return std::to_string(position) + (i < comparison.sample.size() ? " “" + comparison.sample[i] + "”" : "");
}

std::int64_t strongest_key(const AttentionMap& map, std::int64_t query) {
  const auto row = map.weights.begin() + query * map.keys;
  return std::max_element(row, row + map.keys) - row;
}

// The weight that one in fifty of the keys that are looked at exceeds: the first queries have few keys, hence weights
// that would leave all others dark.
double usual_highest(const std::vector<AttentionMap>& maps) {
  std::vector<double> weights;
  for (const AttentionMap& map : maps)
    std::ranges::copy_if(map.weights, std::back_inserter(weights), [](double weight) { return weight > 0.0; });
  if (weights.empty()) return 1.0;
  const auto place = weights.begin() + static_cast<std::ptrdiff_t>(weights.size() - 1 - weights.size() / 50);
  std::ranges::nth_element(weights, place);
  return *place;
}

HeatMap head_picture(const Comparison& comparison, const AttentionMap& attention, double highest) {
  HeatMap map{.title = head_name(attention),
              .values = {static_cast<std::size_t>(attention.queries), static_cast<std::size_t>(attention.keys), {}},
              .x = {.label = "key"},
              .y = {.label = "query"},
              .low = 0.0,
              .high = highest,
              .width = 200,
              .height = 200};
  for (const double weight : attention.weights)  // none at all is left blank, as masked keys are
    map.values.values.push_back(weight > 0.0 ? weight : std::nan(""));
  for (std::int64_t query = 0; query < attention.queries; query++) {
    const std::int64_t key = strongest_key(attention, query);
    map.row_titles.push_back("query " + token_name(comparison, query) + ": most on key " + token_name(comparison, key) +
                             ", " +
                             number_text(attention.weights[static_cast<std::size_t>(query * attention.keys + key)], 3));
  }
  return map;
}

TextTable strongest_keys(const std::vector<AttentionMap>& maps) {
  constexpr std::int64_t kMostRows = 16;
  TextTable table{{">query"}, {}};
  for (const AttentionMap& map : maps) table.headings.push_back(">" + head_name(map) + ": key (weight)");
  const std::int64_t every = std::max<std::int64_t>(1, maps[0].queries / kMostRows);
  for (std::int64_t query = 0; query < maps[0].queries; query += every) {
    std::vector<std::string> row{std::to_string(query)};
    for (const AttentionMap& map : maps) {
      if (query >= map.queries) continue;
      const std::int64_t key = strongest_key(map, query);
      row.push_back(std::to_string(key) + " (" +
                    number_text(map.weights[static_cast<std::size_t>(query * map.keys + key)], 3) + ")");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Figure attention_figure(const Comparison& comparison, const EncodingResult& encoding, std::size_t place) {
  const double highest = usual_highest(encoding.attention);
  double most = 0.0;
  std::string maps;
  for (const AttentionMap& map : encoding.attention) {
    maps +=
        element("div", {},
                element("h4", {}, escape(head_name(map))) + heat_map_picture(head_picture(comparison, map, highest)));
    for (const double weight : map.weights) most = std::fmax(most, weight);
  }
  const HeatMap scale{.title = "",
                      .values = {1, 1, {most}},
                      .x = {},
                      .y = {},
                      .value_label = "attention weight",
                      .low = 0.0,
                      .high = highest};
  return {"attention-" + std::to_string(place), encoding.name, "",
          element("div", {{"class", "maps"}}, maps) + colour_bar(scale), strongest_keys(encoding.attention)};
}

Section attention_section(const Comparison& comparison) {
  std::vector<Figure> figures;
  for (std::size_t i = 0; i < comparison.encodings.size(); i++)
    if (!comparison.encodings[i].attention.empty())
      figures.push_back(attention_figure(comparison, comparison.encodings[i], i));
  return {
      "attention", "Where attention looks",
      "The weights that queries (rows) give to keys (columns) of one sample, the same for every encoding. A diagonal "
      "is a fixed distance; a column is one token that all look at; blank is no weight at all.",
      gallery(figures)};
}

// ---- what was run ----

std::string joined(const auto& values) {
  std::string text;
  for (const auto value : values) text += (text.empty() ? "" : ", ") + number_text(static_cast<double>(value));
  return text;
}

Section run_section(const Settings& settings) {
  const ModelSize& model = settings.model;
  std::vector<std::pair<std::string, std::string>> lines{
      {"task", settings.task},
      {"model", std::to_string(model.layers) + " layers, width " + tool::count(model.width) + ", " +
                    std::to_string(model.heads) + " heads (" + std::to_string(model.kv_heads) +
                    " for keys and values), ffn " + tool::count(model.ffn) + ", vocabulary " +
                    tool::count(model.vocabulary)},
      {"lengths", "trained at " + tool::count(settings.length) + ", scored at " + joined(settings.eval_lengths)},
      {"seeds", joined(settings.seeds)},
      {"learning rates", joined(settings.learning_rates)},
      {"batch", tool::count(settings.batch) + " sequences"}};
  if (settings.steps) lines.emplace_back("steps", tool::count(*settings.steps));
  if (settings.budget_seconds)
    lines.emplace_back("budget", number_text(*settings.budget_seconds) + " s for all trainings");
  lines.emplace_back("machine", settings.machine);
  lines.emplace_back("date", settings.date);
  lines.emplace_back("version", "phasor " + settings.version);
  std::string list;
  for (const auto& [name, value] : lines) list += element("dt", {}, escape(name)) + element("dd", {}, escape(value));
  return {"run", "What was run", "", element("dl", {}, list) + element("pre", {}, escape(settings.command))};
}

// The plain rotary embedding of the model compared.
AtlasRope rope_of(const Settings& settings) {
  AtlasRope rope = plain_rope();
  const std::int64_t head_dim = settings.model.heads > 0 ? settings.model.width / settings.model.heads : 0;
  if (head_dim >= 2 && head_dim % 2 == 0) rope.rope.head_dim = head_dim;
  rope.rope.max_position_embeddings = settings.length;
  return rope;
}

std::string summary(const Comparison& comparison) {
  const Settings& settings = comparison.settings;
  std::string text = "Task " + settings.task + ", trained at " + tool::count(settings.length) + " tokens.";
  const std::vector<std::size_t> order = ranking(comparison);
  if (order.empty() || settings.eval_lengths.empty()) return text;
  const std::int64_t longest = *std::ranges::max_element(settings.eval_lengths);
  const EncodingResult& best = comparison.encodings[order[0]];
  const LengthScore* score = score_at(best, longest);
  if (score == nullptr || score->by_seed.empty()) return text;
  return text + " Best at " + tool::count(longest) + ": " + best.name + ", " + settings.metric + " " +
         score_text(spread(score->by_seed).mean) + ".";
}

}  // namespace

std::string comparison_page(const Comparison& comparison) {
  std::vector<Section> sections{ranking_section(comparison), lengths_section(comparison), training_section(comparison),
                                attention_section(comparison)};
  for (Section& section : atlas_sections({rope_of(comparison.settings)})) sections.push_back(std::move(section));
  sections.push_back(run_section(comparison.settings));
  std::erase_if(sections, [](const Section& section) { return section.content.empty(); });  // nothing was recorded
  return page("Which position encoding?", summary(comparison), sections);
}

}  // namespace phasor::report
