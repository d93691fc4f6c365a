// results.json, in and out. Each struct lists its fields once; reading and writing both go by that list.
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "json/fields.h"
#include "phasor/core/check.h"
#include "report/comparison.h"

namespace phasor::report {

constexpr const char* kReader = "read_comparison";

static void fields(auto& archive, Is<ModelSize> auto& of) {
  archive("layers", of.layers);
  archive("width", of.width);
  archive("heads", of.heads);
  archive("kv_heads", of.kv_heads);
  archive("ffn", of.ffn);
  archive("vocabulary", of.vocabulary);
}

static void fields(auto& archive, Is<Settings> auto& of) {
  archive("task", of.task);
  archive("metric", of.metric);
  archive("higher_is_better", of.higher_is_better);
  archive("chance", of.chance);
  archive("model", of.model);
  archive("length", of.length);
  archive("eval_lengths", of.eval_lengths);
  archive("seeds", of.seeds);
  archive("batch", of.batch);
  archive("steps", of.steps);
  archive("budget_seconds", of.budget_seconds);
  archive("learning_rates", of.learning_rates);
  archive("command", of.command);
  archive("machine", of.machine);
  archive("date", of.date);
  archive("version", of.version);
}

static void fields(auto& archive, Is<LossPoint> auto& of) {
  archive("step", of.step);
  archive("train_loss", of.train_loss);
  archive("validation_loss", of.validation_loss);
}

static void fields(auto& archive, Is<Run> auto& of) {
  archive("seed", of.seed);
  archive("learning_rate", of.learning_rate);
  archive("losses", of.losses);
  archive("diverged", of.diverged);
}

static void fields(auto& archive, Is<LengthScore> auto& of) {
  archive("length", of.length);
  archive("by_seed", of.by_seed);
  archive("not_possible", of.not_possible);
}

static void fields(auto& archive, Is<PositionScore> auto& of) {
  archive("position", of.position);
  archive("score", of.score);
}

static void fields(auto& archive, Is<ScoresByPosition> auto& of) {
  archive("length", of.length);
  archive("scores", of.scores);
}

static void fields(auto& archive, Is<AttentionMap> auto& of) {
  archive("layer", of.layer);
  archive("head", of.head);
  archive("queries", of.queries);
  archive("keys", of.keys);
  archive("weights", of.weights);
}

static void fields(auto& archive, Is<EncodingResult> auto& of) {
  archive("name", of.name);
  archive("attention_score", of.attention_score);
  archive("trained_as", of.trained_as);
  archive("parameters", of.parameters);
  archive("tokens_per_second", of.tokens_per_second);
  archive("peak_memory_bytes", of.peak_memory_bytes);
  archive("runs", of.runs);
  archive("scores", of.scores);
  archive("by_position", of.by_position);
  archive("attention", of.attention);
}

static void fields(auto& archive, Is<Comparison> auto& of) {
  archive("settings", of.settings);
  archive("sample", of.sample);
  archive("encodings", of.encodings);
}

// ---- what the types do not say ----

namespace {

// Where a value stands: the file, and the key as a path.
struct Place {
  std::string_view file;
  std::string key;

  Place at(const std::string& name) const { return {file, key + "." + name}; }
  Place at(std::size_t i) const { return {file, key + "[" + std::to_string(i) + "]"}; }
};

void check_encoding(const EncodingResult& encoding, const Place& place) {
  const auto check = [&](bool holds, const Place& at, const auto& given, const char* expected) {
    PHASOR_CHECK(holds, kReader, at.file, ": ", at.key, ": ", given, ", expected ", expected);
  };
  check(!encoding.name.empty(), place.at("name"), "empty", "a name");
  check(encoding.attention_score == "dot" || encoding.attention_score == "w2", place.at("attention_score"),
        encoding.attention_score, "dot or w2");
  for (std::size_t i = 0; i < encoding.scores.size(); i++) {
    const LengthScore& score = encoding.scores[i];
    check(score.by_seed.empty() == score.not_possible.has_value(), place.at("scores").at(i).at("by_seed"),
          score.by_seed.size(), "scores, or the reason in not_possible, not both");
  }
  for (std::size_t i = 0; i < encoding.attention.size(); i++) {
    const AttentionMap& map = encoding.attention[i];
    constexpr std::int64_t kMost = 1 << 20;
    const bool sized = map.queries >= 1 && map.keys >= 1 && map.queries <= kMost && map.keys <= kMost;
    check(sized && static_cast<std::int64_t>(map.weights.size()) == map.queries * map.keys,
          place.at("attention").at(i).at("weights"), map.weights.size(), "queries * keys numbers, at least one");
  }
}

void check_comparison(const Comparison& comparison, std::string_view file) {
  PHASOR_CHECK(comparison.settings.length >= 1, kReader, file, ": settings.length: ", comparison.settings.length,
               ", expected at least 1");
  const Place place{file, "encodings"};
  std::set<std::string> names;
  for (std::size_t i = 0; i < comparison.encodings.size(); i++) {
    check_encoding(comparison.encodings[i], place.at(i));
    PHASOR_CHECK(names.insert(comparison.encodings[i].name).second, kReader, file, ": ", place.at(i).at("name").key,
                 ": ", comparison.encodings[i].name, " a second time, expected names that differ");
  }
}

}  // namespace

std::string to_json(const Comparison& comparison) {
  constexpr double kDecimals = 1e4;  // of attention weights, which are a picture
  Comparison rounded = comparison;
  for (EncodingResult& encoding : rounded.encodings)
    for (AttentionMap& map : encoding.attention)
      for (double& weight : map.weights) weight = std::round(weight * kDecimals) / kDecimals;
  return fields_to_json(rounded).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Comparison read_comparison(std::string_view json, std::string_view file) {
  auto comparison = fields_from_json<Comparison>(parse_json_object(json, kReader, file), kReader, std::string(file));
  check_comparison(comparison, file);
  return comparison;
}

Comparison load_comparison(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  PHASOR_CHECK(stream.good() && text.good(), "load_comparison", "file: ", file, " cannot be read");
  return read_comparison(text.str(), file);
}

}  // namespace phasor::report
