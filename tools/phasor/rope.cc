// phasor rope: what a rotary configuration does to every pair of channels.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "commands.h"
#include "phasor/position/hugging_face.h"
#include "table.h"

namespace phasor::tool {
namespace {

// Shown when no config is given: Llama 3.1 8B.
constexpr const char* kExample = R"({
  "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 131072,
  "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192}})";

constexpr std::int64_t kLongest = std::int64_t{1} << 40;

struct Options {
  std::optional<std::string> config;
  std::int64_t length = 0;
  bool json = false, all = false;
};

struct Pair {
  double inv_freq, plain;
  const char* change;  // against the plain frequency
};

// One rotary embedding, looked at for one context length.
struct Picture {
  const RopeConfig& rope;
  std::int64_t original, extended, length;  // in tokens; 0: not known
  double attention_factor;
  std::vector<Pair> pairs;
};

const char* change_of(double inv_freq, double plain, double factor) {
  constexpr double kSame = 1e-9;
  if (inv_freq == 0.0) return "not rotated";
  const double ratio = inv_freq / plain;
  if (std::fabs(ratio - 1.0) < kSame) return "kept";
  if (factor > 1.0 && std::fabs(ratio * factor - 1.0) < kSame) return "interpolated";
  return ratio < 1.0 && ratio * factor > 1.0 ? "blended" : "changed";
}

Picture picture_of(const RopeConfig& rope, std::int64_t length) {
  const RopeScaling& scaling = rope.scaling;
  const double factor = scaling.factor.value_or(1.0);
  Picture picture{.rope = rope, .original = 0, .extended = 0, .length = 0, .attention_factor = 1.0, .pairs = {}};
  picture.original = scaling.original_max_position_embeddings.value_or(rope.max_position_embeddings);
  constexpr double kMost = 1e15;
  const auto stretched = static_cast<std::int64_t>(std::min(kMost, static_cast<double>(picture.original) * factor));
  picture.extended = std::max(rope.max_position_embeddings, stretched);
  picture.length = length > 0 ? length : picture.original;
  const RopeFrequencies frequencies = rope_frequencies(rope, picture.length);
  RopeConfig plain = rope;
  plain.scaling = {};
  if (scaling.type == "proportional") plain.rotary_dim = 0;
  const RopeFrequencies unscaled = rope_frequencies(plain);
  picture.attention_factor = frequencies.attention_factor;
  for (std::size_t i = 0; i < frequencies.inv_freq.size(); i++)
    picture.pairs.push_back({frequencies.inv_freq[i], unscaled.inv_freq[i],
                             change_of(frequencies.inv_freq[i], unscaled.inv_freq[i], factor)});
  return picture;
}

double wavelength(double inv_freq) { return 2.0 * std::numbers::pi / inv_freq; }

const char* layout_name(AxisLayout axes) {
  switch (axes) {
    case AxisLayout::single:
      return "single";
    case AxisLayout::chunked:
      return "M-RoPE, chunked";
    case AxisLayout::interleaved:
      return "M-RoPE, interleaved";
    case AxisLayout::axial:
      return "2-D, axial";
    default:
      return "2-D, alternating";
  }
}

// ---- text ----

std::string settings_text(const RopeScaling& scaling) {
  std::string text;
  for (const auto& [name, value] : given_settings(scaling)) {
    const std::string shown = value.size() > 40 ? value.substr(0, 37) + "..." : value;
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + shown;
  }
  return text.empty() ? "none" : text;
}

// Consecutive pairs with the same change: "0-28 kept, 29-34 blended, 35-63 interpolated".
std::string changes_text(const std::vector<Pair>& pairs) {
  std::string text;
  for (std::size_t first = 0, last; first < pairs.size(); first = last + 1) {
    for (last = first; last + 1 < pairs.size() && pairs[last + 1].change == pairs[first].change;) last++;
    text += (text.empty() ? "" : ", ") + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "") +
            " " + pairs[first].change;
  }
  return text;
}

// With the frequencies for that length, which differ for dynamic and longrope.
std::string reach_text(const RopeConfig& rope, std::int64_t length) {
  if (length <= 0) return "not given";
  const Picture picture = picture_of(rope, length);
  const auto turning = std::ranges::count_if(picture.pairs, [&](const Pair& pair) {
    return pair.inv_freq > 0.0 && wavelength(pair.inv_freq) <= static_cast<double>(length);
  });
  return count(length) + " tokens, in which " + std::to_string(turning) + " of " +
         std::to_string(picture.pairs.size()) + " pairs turn once or more";
}

// Pairs worth a row: the ends of each change, and some between.
bool is_shown(const Picture& picture, std::size_t i, bool all) {
  const auto& pairs = picture.pairs;
  const std::size_t step = std::max<std::size_t>(1, pairs.size() / 16);
  const bool edge = i == 0 || i + 1 == pairs.size() || pairs[i - 1].change != pairs[i].change ||
                    pairs[i + 1].change != pairs[i].change;
  return all || edge || i % step == 0;
}

void print_pairs(const Picture& picture, bool all) {
  const std::int64_t length = picture.length > 0 ? picture.length : 1000;
  Table table({">pair", ">inv_freq", ">plain", ">wavelength", ">turns in " + count(length), "change"});
  for (std::size_t i = 0; i < picture.pairs.size(); i++) {
    if (!is_shown(picture, i, all)) continue;
    const Pair& pair = picture.pairs[i];
    const bool turns = pair.inv_freq > 0.0;
    table.add({std::to_string(i), number(pair.inv_freq), number(pair.plain),
               turns ? tokens(wavelength(pair.inv_freq)) : "-",
               turns ? number(static_cast<double>(length) / wavelength(pair.inv_freq), 4) : "-", pair.change});
  }
  table.print();
}

// DeepSeek's models multiply it beyond 1/sqrt(D).
std::string score_scale_text(const RopeConfig& rope) {
  const double correction = rope_score_scale(rope, 1);
  return correction == 1.0 ? "1/sqrt(D)" : number(correction, 8) + "/sqrt(D)";
}

void print_rope(const Picture& picture, bool all) {
  const RopeConfig& rope = picture.rope;
  const auto channels = rope.rotary_dim == 0 ? rope.head_dim : rope.rotary_dim;
  const auto line = [](const char* name, const std::string& value) { std::printf("%-18s%s\n", name, value.c_str()); };
  line("type", rope.scaling.type);
  line("theta", number(rope.theta, 10));
  line("scaling", settings_text(rope.scaling));
  line("attention factor", number(picture.attention_factor, 8));
  line("rotated", std::to_string(channels) + " of " + std::to_string(rope.head_dim) + " channels, pairs " +
                      std::string(pairing_name(rope.pairing)));
  if (rope.axes != AxisLayout::single) {
    std::string sections;
    for (const std::int64_t pairs : rope.sections) sections += " " + std::to_string(pairs);
    line("axes", layout_name(rope.axes) + (sections.empty() ? "" : ", sections" + sections));
  }
  line("score scale", score_scale_text(rope));
  line("original context", reach_text(rope, picture.original));
  if (picture.extended > picture.original) line("extended context", reach_text(rope, picture.extended));
  const bool by_length = rope.scaling.type == "dynamic" || rope.scaling.type == "longrope";
  line("pairs", changes_text(picture.pairs) + (by_length ? ", at " + count(picture.length) + " tokens" : ""));
  std::printf("\n");
  print_pairs(picture, all);
}

void print_text(const HuggingFaceRope& read, const Options& options) {
  const std::string model = read.model_type.empty() ? "" : " (" + printable(read.model_type) + ")";
  std::printf("%s%s\n", options.config ? options.config->c_str() : "Example config, Llama 3.1 8B", model.c_str());
  for (const LayerRope& layer : read.layers) {
    std::printf("\n");
    if (!layer.layer_type.empty()) std::printf("== %s ==\n", printable(layer.layer_type).c_str());
    if (layer.rope) {
      print_rope(picture_of(*layer.rope, options.length), options.all);
    } else {
      std::printf("no rotation (NoPE)\n");
    }
  }
  if (!read.layers_without_rope.empty()) {
    std::printf("\nLayers without rotation (NoPE):");
    for (const std::int64_t index : read.layers_without_rope) std::printf(" %lld", static_cast<long long>(index));
    std::printf("\n");
  }
  for (const std::string& note : read.notes) std::printf("\nnote: %s\n", printable(note).c_str());
}

// ---- JSON ----

nlohmann::ordered_json rope_json(const Picture& picture) {
  const RopeConfig& rope = picture.rope;
  nlohmann::ordered_json scaling = nlohmann::ordered_json::object();
  for (const auto& [name, value] : given_settings(rope.scaling))
    scaling[std::string(name)] = nlohmann::ordered_json::parse(value);
  nlohmann::ordered_json result{{"rope_type", rope.scaling.type},
                                {"theta", rope.theta},
                                {"scaling", scaling},
                                {"attention_factor", picture.attention_factor},
                                {"score_correction", rope_score_scale(rope, 1)},
                                {"head_dim", rope.head_dim},
                                {"rotary_dim", rope.rotary_dim == 0 ? rope.head_dim : rope.rotary_dim},
                                {"pairing", pairing_name(rope.pairing)},
                                {"axes", layout_name(rope.axes)},
                                {"sections", rope.sections},
                                {"original_context", picture.original},
                                {"extended_context", picture.extended},
                                {"length", picture.length}};
  nlohmann::ordered_json pairs = nlohmann::ordered_json::array();
  for (const Pair& pair : picture.pairs)
    pairs.push_back({{"inv_freq", pair.inv_freq},
                     {"plain_inv_freq", pair.plain},
                     {"wavelength", pair.inv_freq > 0.0 ? nlohmann::ordered_json(wavelength(pair.inv_freq)) : nullptr},
                     {"change", pair.change}});
  result["pairs"] = pairs;
  return result;
}

void print_json(const HuggingFaceRope& read, const Options& options) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerRope& layer : read.layers)
    layers.push_back({{"layer_type", layer.layer_type},
                      {"rope", layer.rope ? rope_json(picture_of(*layer.rope, options.length)) : nullptr}});
  const nlohmann::ordered_json all{{"model_type", read.model_type},
                                   {"layers", layers},
                                   {"layers_without_rope", read.layers_without_rope},
                                   {"notes", read.notes}};
  std::printf("%s\n", all.dump(2).c_str());
}

}  // namespace

void add_rope(CLI::App& app) {
  auto* command = app.add_subcommand("rope", "Show the frequencies of a rotary configuration (RoPE)");
  auto options = std::make_shared<Options>();
  command->add_option("--config", options->config, "Hugging Face config.json, or its folder (default: an example)");
  command->add_option("--length", options->length, "Context length in tokens (default: the original one)")
      ->check([](const std::string& text) -> std::string {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        return whole && value >= 1 && value <= kLongest ? "" : text + ", expected a whole number from 1 to 2^40";
      });
  command->add_flag("--all", options->all, "Show every pair of channels");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] {
    const HuggingFaceRope read = options->config ? load_rope_config(*options->config) : read_rope_config(kExample);
    options->json ? print_json(read, *options) : print_text(read, *options);
  });
}

}  // namespace phasor::tool
