// results.json, in and out. Each struct lists its fields once; reading and writing both go by that list.
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <type_traits>

#include "phasor/core/check.h"
#include "report/comparison.h"

namespace phasor::report {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kReader = "read_comparison";

// Const when it is written.
template <class T, class Struct>
concept Is = std::is_same_v<std::remove_const_t<T>, Struct>;

void fields(auto& archive, Is<ModelSize> auto& of) {
  archive("layers", of.layers);
  archive("width", of.width);
  archive("heads", of.heads);
  archive("kv_heads", of.kv_heads);
  archive("ffn", of.ffn);
  archive("vocabulary", of.vocabulary);
}

void fields(auto& archive, Is<Settings> auto& of) {
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

void fields(auto& archive, Is<LossPoint> auto& of) {
  archive("step", of.step);
  archive("train_loss", of.train_loss);
  archive("validation_loss", of.validation_loss);
}

void fields(auto& archive, Is<Run> auto& of) {
  archive("seed", of.seed);
  archive("learning_rate", of.learning_rate);
  archive("losses", of.losses);
}

void fields(auto& archive, Is<LengthScore> auto& of) {
  archive("length", of.length);
  archive("by_seed", of.by_seed);
  archive("not_possible", of.not_possible);
}

void fields(auto& archive, Is<PositionScore> auto& of) {
  archive("position", of.position);
  archive("score", of.score);
}

void fields(auto& archive, Is<ScoresByPosition> auto& of) {
  archive("length", of.length);
  archive("scores", of.scores);
}

void fields(auto& archive, Is<AttentionMap> auto& of) {
  archive("layer", of.layer);
  archive("head", of.head);
  archive("queries", of.queries);
  archive("keys", of.keys);
  archive("weights", of.weights);
}

void fields(auto& archive, Is<EncodingResult> auto& of) {
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

void fields(auto& archive, Is<Comparison> auto& of) {
  archive("settings", of.settings);
  archive("sample", of.sample);
  archive("encodings", of.encodings);
}

// ---- out ----

Json written(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json written(bool value) { return value; }
Json written(std::int64_t value) { return value; }
Json written(const std::string& value) { return value; }
template <class T>
Json written(const std::vector<T>& values);
template <class T>
Json written(const T& value);

class Writer {
 public:
  template <class T>
  void operator()(const char* key, const T& value) {
    object_[key] = written(value);
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value) object_[key] = written(*value);
  }
  Json take() { return std::move(object_); }

 private:
  Json object_ = Json::object();
};

template <class T>
Json written(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(written(value));
  return list;
}

template <class T>
Json written(const T& value) {
  Writer writer;
  fields(writer, value);
  return writer.take();
}

// ---- in ----

// Where a value stands: the file, and the key as a path.
struct Place {
  std::string_view file;
  std::string key;

  Place at(std::string_view name) const {
    return {file, key.empty() ? std::string(name) : key + "." + std::string(name)};
  }
  Place at(std::size_t i) const { return {file, key + "[" + std::to_string(i) + "]"}; }
};

std::string cut(const Json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

[[noreturn]] void refuse(const Place& place, const Json& value, std::string_view expected) {
  fail(kReader, place.file, ": ", place.key, ": ", cut(value), ", expected ", expected);
}

void read(const Json& value, const Place& place, double& result) {
  if (!value.is_number() && !value.is_null()) refuse(place, value, "a number, or null for one that is not finite");
  result = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

void read(const Json& value, const Place& place, std::int64_t& result) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits) refuse(place, value, "a whole number");
  result = value.get<std::int64_t>();
}

void read(const Json& value, const Place& place, bool& result) {
  if (!value.is_boolean()) refuse(place, value, "true or false");
  result = value.get<bool>();
}

void read(const Json& value, const Place& place, std::string& result) {
  if (!value.is_string()) refuse(place, value, "a string");
  result = value.get<std::string>();
}

template <class T>
void read(const Json& value, const Place& place, std::vector<T>& result);
template <class T>
void read(const Json& value, const Place& place, T& result);

class Reader {
 public:
  Reader(const Json& object, Place place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) refuse(place_, object, "an object");
  }

  template <class T>
  void operator()(const char* key, T& value) {
    known_.insert(key);
    const auto found = object_.find(key);
    PHASOR_CHECK(found != object_.end(), kReader, place_.file, ": ", place_.at(key).key, ": missing, expected it");
    read(*found, place_.at(key), value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found != object_.end()) read(*found, place_.at(key), value.emplace());
  }

  void refuse_unknown() const {
    std::string names;
    for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
    for (const auto& [key, value] : object_.items())
      PHASOR_CHECK(known_.contains(key), kReader, place_.file, ": ", place_.at(key).key, ": not known, expected ",
                   names);
  }

 private:
  const Json& object_;
  Place place_;
  std::set<std::string> known_;
};

template <class T>
void read(const Json& value, const Place& place, std::vector<T>& result) {
  if (!value.is_array()) refuse(place, value, "a list");
  result.clear();
  for (std::size_t i = 0; i < value.size(); i++) read(value[i], place.at(i), result.emplace_back());
}

template <class T>
void read(const Json& value, const Place& place, T& result) {
  Reader reader(value, place);
  fields(reader, result);
  reader.refuse_unknown();
}

Json parse(std::string_view text, std::string_view file) {
  std::vector<std::set<std::string>> keys;  // of every object that is still open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    constexpr int kDeepest = 16;
    PHASOR_CHECK(depth <= kDeepest, kReader, file, ": nested deeper than ", kDeepest, ", expected a results.json");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key)
      PHASOR_CHECK(keys.back().insert(value.get<std::string>()).second, kReader, file, ": ", value.get<std::string>(),
                   ": given twice, expected once");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    fail(kReader, file, ": not JSON, ", error.what());
  }
}

// ---- what the types do not say ----

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
  return written(rounded).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Comparison read_comparison(std::string_view json, std::string_view file) {
  Comparison comparison;
  const Json parsed = parse(json, file);
  read(parsed, Place{file, ""}, comparison);
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
