#include "phasor/position/hugging_face.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <system_error>

#include "config_json.h"
#include "hugging_face_models.h"
#include "phasor/core/check.h"
#include "rope_keys.h"
#include "scaling_json.h"

namespace phasor {
namespace {

constexpr const char* kName = kConfigReader;
constexpr std::size_t kLargestConfig = std::size_t{16} << 20;  // bytes

// ---- the reader ----

class Reader {
 public:
  explicit Reader(const Json& whole) : config_(text_part(whole)) {
    const Json* type = find(config_, "model_type");
    if (type == nullptr) type = find(whole, "model_type");
    if (type != nullptr) result_.model_type = to_string("model_type", *type);
    rule_ = find_model_rule(result_.model_type);
    if (rule_ == nullptr) read_as_unknown();
    if (const Json* alibi = find(config_, "alibi"))
      PHASOR_CHECK(!to_bool("alibi", *alibi), kName, "alibi: true, expected a model that rotates");
  }

  HuggingFaceRope read() {
    const Json parameters = chosen_parameters();
    if (rule_->sliding_theta != 0.0) {
      read_two_layer_types(parameters);
    } else if (is_nested(parameters)) {
      read_nested(parameters);
    } else {
      result_.layers.push_back({"", rope_of(parameters, "")});
    }
    read_layers_without_rope();
    return std::move(result_);
  }

 private:
  void note(auto... parts) {
    std::string text;
    ((text += parts), ...);
    result_.notes.push_back(std::move(text));
  }

  // A multimodal config holds that of its language model.
  static const Json& text_part(const Json& whole) {
    const Json* text = find(whole, "text_config");
    if (text == nullptr) return whole;
    if (!text->is_object()) fail_type("text_config", *text, "an object");
    return *text;
  }

  // A model type we have no rule for must at least say that it rotates; the rest is assumed, with a note.
  void read_as_unknown() {
    static constexpr ModelRule kUnknown{.model_type = ""};
    const bool rotates = std::ranges::any_of(std::array{"rope_theta", "rope_scaling", "rope_parameters"},
                                             [&](const char* key) { return config_.contains(key); });
    PHASOR_CHECK(rotates, kName, "model_type: \"", result_.model_type,
                 "\", which phasor does not know to rotate; expected rope_parameters, rope_scaling or rope_theta");
    note("model_type: \"", result_.model_type,
         "\" is not known; half-split pairs, one axis, and rotation in every layer are assumed");
    rule_ = &kUnknown;
  }

  bool is_known() const { return !rule_->model_type.empty(); }

  // ---- rope_parameters, rope_scaling, or the model type's default ----

  Json chosen_parameters() {
    const Json* scaling = object_of("rope_scaling");
    const Json* parameters = object_of("rope_parameters");
    legacy_ = scaling != nullptr;
    if (scaling != nullptr) {
      if (parameters != nullptr) note("rope_parameters: not used, since rope_scaling is given as well");
      return *scaling;
    }
    if (parameters != nullptr) return *parameters;
    if (!rule_->parameters.empty()) return Json::parse(rule_->parameters);
    return Json::object();
  }

  const Json* object_of(const char* key) const {
    const Json* value = find(config_, key);
    if (value == nullptr || value->empty()) return nullptr;
    if (!value->is_object()) fail_type(key, *value, "an object");
    return value;
  }

  static bool is_nested(const Json& parameters) {
    return std::ranges::any_of(parameters, [](const Json& value) { return value.is_object(); });
  }

  // Gemma 3 and its like: full_attention and sliding_attention, each with a theta of its own.
  void read_two_layer_types(const Json& parameters) {
    const bool nested = is_nested(parameters);
    if (legacy_) {
      PHASOR_CHECK(rule_->legacy != LegacyScaling::refused, kName, "rope_scaling: given, expected rope_parameters for ",
                   "model_type ", result_.model_type);
    } else {
      PHASOR_CHECK(nested || parameters.empty(), kName, "rope_parameters: ", json_text(parameters),
                   ", expected an entry for each of full_attention and sliding_attention");
    }
    if (nested)
      for (const auto& [key, value] : parameters.items())
        PHASOR_CHECK(key == "full_attention" || key == "sliding_attention", kName, "rope_parameters: has \"", key,
                     "\", expected full_attention and sliding_attention");
    for (const char* type : {"full_attention", "sliding_attention"}) {
      const bool full = std::string_view(type) == "full_attention";
      Json of_type = Json::object();
      if (legacy_ && (full || rule_->legacy == LegacyScaling::both)) of_type = parameters;
      if (nested && find(parameters, type) != nullptr) {
        of_type = parameters[type];
        if (!of_type.is_object()) fail_type(type, of_type, "an object");
      } else if (nested && parameters.contains(type) && rule_->legacy == LegacyScaling::refused) {
        result_.layers.push_back({type, std::nullopt});
        continue;
      }
      result_.layers.push_back({type, rope_of(of_type, type)});
    }
  }

  void read_nested(const Json& parameters) {
    for (const auto& [key, value] : parameters.items())
      if (value.is_object())
        PHASOR_CHECK(!is_known() && !parameters.contains("rope_type") && !parameters.contains("type"), kName, key, ": ",
                     json_text(value), ", expected no object: model_type ", result_.model_type,
                     " has one rotary embedding, not one by layer type");
    for (const auto& [type, value] : parameters.items()) {
      if (value.is_null()) {
        result_.layers.push_back({type, std::nullopt});
        continue;
      }
      if (!value.is_object()) fail_type(type, value, "an object or null");
      result_.layers.push_back({type, rope_of(value, type)});
    }
  }

  void read_layers_without_rope() {
    switch (rule_->rotates) {
      case Rotates::all:
        return;
      case Rotates::no_rope_layers:
        return read_no_rope_layers();
      case Rotates::sliding_attention:
        return read_sliding_layers();
    }
  }

  void read_no_rope_layers() {
    const Json* layers = find(config_, "no_rope_layers");
    if (layers == nullptr || layers->empty()) return leave_out_every(4, "no_rope_layer_interval");
    const auto uses = to_list<std::int64_t>("no_rope_layers", *layers, "a list of 0 and 1", to_integer);
    for (std::size_t i = 0; i < uses.size(); i++) {
      PHASOR_CHECK(uses[i] == 0 || uses[i] == 1, kName, "no_rope_layers: contains ", uses[i], ", expected 0 and 1");
      if (uses[i] == 0) result_.layers_without_rope.push_back(static_cast<std::int64_t>(i));
    }
  }

  // Full-attention layers do not rotate, unless the model has no window at all.
  void read_sliding_layers() {
    const Json* types = find(config_, "layer_types");
    if (types == nullptr) {
      if (config_.contains("sliding_window") && config_["sliding_window"].is_null()) return;
      return leave_out_every(4, "sliding_window_pattern");
    }
    const auto names = to_list<std::string>("layer_types", *types, "a list of strings", to_string);
    for (std::size_t i = 0; i < names.size(); i++)
      if (names[i] != "sliding_attention") result_.layers_without_rope.push_back(static_cast<std::int64_t>(i));
  }

  void leave_out_every(std::int64_t otherwise, const char* key) {
    constexpr std::int64_t kMost = 100'000;
    const std::int64_t interval = integer_of(config_, {key}).value_or(otherwise);
    const auto count = integer_of(config_, {"num_hidden_layers"});
    PHASOR_CHECK(interval >= 1, kName, key, ": ", interval, ", expected 1 or more");
    PHASOR_CHECK(!count || (*count >= 0 && *count <= kMost), kName, "num_hidden_layers: ", *count, ", expected 0 to ",
                 kMost);
    if (!count) note("num_hidden_layers: not given; every ", std::to_string(interval), "th layer does not rotate");
    for (std::int64_t i = interval - 1; i < count.value_or(0); i += interval) result_.layers_without_rope.push_back(i);
  }

  // ---- one rotary embedding ----

  RopeConfig rope_of(const Json& parameters, std::string_view layer_type) {
    RopeConfig rope;
    rope.head_dim = head_dim(layer_type);
    rope.theta = theta(parameters, layer_type);
    rope.max_position_embeddings = integer_of(config_, {"max_position_embeddings"}).value_or(0);
    rope.pairing = pairing();
    rope.scores_follow_mscale = rule_->scores_follow_mscale;
    read_scaling(parameters, layer_type, rope);
    read_axes(parameters, rope);
    rope.rotary_dim = rotary_dim(parameters, rope);
    rope_frequencies(rope);  // refuses settings that cannot be, alone or together
    return rope;
  }

  std::int64_t head_dim(std::string_view layer_type) const {
    if (rule_->global_head_dim != 0 && layer_type == "full_attention")
      return integer_of(config_, {"global_head_dim"}).value_or(rule_->global_head_dim);
    if (const auto given = integer_of(config_, {"qk_rope_head_dim", "head_dim", "kv_channels"})) return *given;
    if (rule_->head_dim != 0) return rule_->head_dim;
    const auto width = integer_of(config_, {"embed_dim", "hidden_size", "n_embd", "d_model"});
    const auto heads = integer_of(config_, {"num_attention_heads", "n_head", "num_heads"});
    PHASOR_CHECK(width && heads, kName, "head_dim: missing, expected it, or hidden_size and num_attention_heads");
    PHASOR_CHECK(*heads >= 1 && *width >= 1 && *width % *heads == 0, kName, "num_attention_heads: ", *heads,
                 ", expected a divisor of hidden_size ", *width);
    return *width / *heads;
  }

  double theta(const Json& parameters, std::string_view layer_type) {
    if (const auto inside = number_not_null(parameters, "rope_theta")) return *inside;
    const bool by_type = rule_->sliding_theta != 0.0;
    PHASOR_CHECK(!by_type || rule_->legacy != LegacyScaling::refused || parameters.empty(), kName,
                 "rope_theta: missing for ", layer_type, ", expected a number");
    if (by_type && layer_type == "sliding_attention") {
      for (const char* key : {"rope_local_base_freq", "local_rope_theta"})
        if (const auto given = number_not_null(config_, key)) return *given;
      return rule_->sliding_theta;
    }
    if (rule_->theta_key != "rope_theta" && config_.contains("rope_theta"))
      note("rope_theta: not used by model_type ", result_.model_type, ", whose key is ", std::string(rule_->theta_key));
    for (const std::string_view key : {rule_->theta_key, std::string_view("global_rope_theta")})
      if (const auto given = number_not_null(config_, key)) return *given;
    if (!is_known()) note("rope_theta: not given, 10000 is assumed");
    return rule_->theta;
  }

  // The channels that rotate: from partial_rotary_factor or one of its aliases, rotary_dim, or the model type.
  std::int64_t rotary_dim(const Json& parameters, const RopeConfig& rope) const {
    if (const auto inside = number_not_null(parameters, "partial_rotary_factor"))
      return part_of("partial_rotary_factor", *inside, rope);
    for (const char* key : {"partial_rotary_factor", "rotary_pct"}) {
      const auto outside = config_.find(key);
      if (outside == config_.end()) continue;
      return outside->is_null() ? rope.head_dim : part_of(key, to_number(key, *outside), rope);
    }
    if (const auto channels = integer_of(config_, {"rotary_dim"})) {
      PHASOR_CHECK(*channels >= 2 && *channels % 2 == 0 && *channels <= rope.head_dim, kName, "rotary_dim: ", *channels,
                   ", expected an even number from 2 to head_dim ", rope.head_dim);
      return *channels;
    }
    return part_of("partial_rotary_factor", rule_->partial, rope);
  }

  static std::int64_t part_of(std::string_view key, double part, const RopeConfig& rope) {
    const double channels = static_cast<double>(rope.head_dim) * part;
    PHASOR_CHECK(part > 0.0 && part <= 1.0, kName, key, ": ", part, ", expected above 0 and at most 1");
    if (part == 1.0) return rope.head_dim;
    // Proportional counts pairs of the whole head, the other types channels.
    const std::int64_t rotated = rope.scaling.type == "proportional" ? 2 * static_cast<std::int64_t>(channels / 2.0)
                                                                     : static_cast<std::int64_t>(channels);
    PHASOR_CHECK(rotated >= 2 && rotated % 2 == 0, kName, key, ": ", part, " of head_dim ", rope.head_dim, " is ",
                 rotated, " channels, expected an even number of at least 2");
    return rotated;
  }

  Pairing pairing() const {
    if (rule_->interleave == Interleave::never) return Pairing::half;
    const Json* asked = find(config_, "rope_interleave");
    const bool disabled =
        rule_->interleave == Interleave::unless_disabled && asked != nullptr && !to_bool("rope_interleave", *asked);
    return disabled ? Pairing::half : Pairing::adjacent;
  }

  // ---- scaling ----

  std::string scaling_type(const Json& parameters) {
    for (const char* key : {"rope_type", "type"})
      if (parameters.contains(key)) {
        std::string type = to_string(key, parameters[key]);
        const Json* other = find(parameters, "type");
        if (other != nullptr && *other != type) note("type: not used, since rope_type is given as well");
        return renamed(std::move(type), parameters);
      }
    return "default";
  }

  // Names that mean another type for some models.
  std::string renamed(std::string type, const Json& parameters) const {
    const bool two_axes = rule_->axes == AxisLayout::axial || rule_->axes == AxisLayout::alternating;
    if (two_axes && type == "axial") return "default";
    if (rule_->only_longrope && (type == "su" || type == "yarn")) return "longrope";
    if (rule_->mrope_is_default && type == "mrope") return "default";
    if (rule_->alpha_is_ntk && type == "dynamic" && find(parameters, "alpha") != nullptr) return "ntk";
    std::string known;
    for (const RopeType& row : rope_types()) {
      const bool possible = !rule_->only_longrope || row.name == "default" || row.name == "longrope";
      if (!row.in_hugging_face || !possible) continue;
      if (row.name == type) return type;
      known += (known.empty() ? "" : ", ") + std::string(row.name);
    }
    fail(kName, "rope_type: \"", type, "\", expected one of ", known);
  }

  void read_scaling(const Json& parameters, std::string_view layer_type, RopeConfig& rope) {
    RopeScaling& scaling = rope.scaling;
    scaling.type = scaling_type(parameters);
    const RopeType& type = rope_type(scaling.type);
    const auto uses = [&](std::string_view key) {
      if (key == "clamp_to_pairs") return false;  // ours, not Hugging Face's
      return std::ranges::find(type.required, key) != type.required.end() ||
             std::ranges::find(type.optional, key) != type.optional.end();
    };
    std::set<std::string_view> known{"rope_type",        "type", "rope_theta", "partial_rotary_factor", "mrope_section",
                                     "mrope_interleaved"};
    for (const RopeKey& key : kRopeKeys) {
      if (!uses(key.name)) continue;
      known.insert(key.name);
      if (parameters.contains(key.name)) read_scaling_key(key, parameters[key.name], scaling);
    }
    if (uses("original_max_position_embeddings")) read_original_length(layer_type, rope);
    if (scaling.type == "yarn" && !scaling.factor && parameters.contains("factor")) read_implied_factor(rope);
    if (scaling.type == "ntk") {  // Hunyuan's fixed base
      scaling.factor = to_number("alpha", parameters["alpha"]);
      return;
    }
    for (const auto& [key, value] : parameters.items())
      if (!known.contains(key)) note(key, ": not used by type ", scaling.type);
  }

  // Flat settings: the config's own value has priority over the one next to the type; else the trained length.
  void read_original_length(std::string_view layer_type, RopeConfig& rope) {
    constexpr std::string_view kKey = "original_max_position_embeddings";
    auto& length = rope.scaling.original_max_position_embeddings;
    if (layer_type.empty() && config_.contains(kKey)) {
      const std::int64_t outer = to_integer(kKey, config_[std::string(kKey)]);
      if (length && *length != outer)
        note(std::string(kKey), ": ", std::to_string(*length), " beside the type is not used, since the config has ",
             std::to_string(outer));
      length = outer;
    }
    if (length) return;
    PHASOR_CHECK(rope.max_position_embeddings >= 1, kName, kKey, ": missing, expected it or max_position_embeddings");
    length = rope.max_position_embeddings;
    note(std::string(kKey), ": not given, max_position_embeddings ", std::to_string(*length), " is assumed");
  }

  // A factor of null, as opposed to none: the quotient of the two lengths.
  void read_implied_factor(RopeConfig& rope) {
    const auto original = static_cast<double>(*rope.scaling.original_max_position_embeddings);
    PHASOR_CHECK(rope.max_position_embeddings >= 1, kName,
                 "factor: null, expected a number or max_position_embeddings");
    rope.scaling.factor = static_cast<double>(rope.max_position_embeddings) / original;
    note("factor: null, max_position_embeddings / original_max_position_embeddings is assumed");
  }

  // ---- axes ----

  void read_axes(const Json& parameters, RopeConfig& rope) {
    const Json* sections = find(parameters, "mrope_section");
    if (is_known()) {
      rope.axes = rule_->axes;
    } else if (sections != nullptr) {
      const Json* interleaved = find(parameters, "mrope_interleaved");
      const bool alternate = interleaved != nullptr && to_bool("mrope_interleaved", *interleaved);
      rope.axes = alternate ? AxisLayout::interleaved : AxisLayout::chunked;
    }
    if (rope.axes != AxisLayout::chunked && rope.axes != AxisLayout::interleaved) {
      if (sections != nullptr) note("mrope_section: not used by model_type ", result_.model_type);
      return;
    }
    if (sections != nullptr) {
      rope.sections = to_list<std::int64_t>("mrope_section", *sections, "a list of 3 whole numbers", to_integer);
    } else {
      rope.sections.assign(rule_->sections.begin(), rule_->sections.end());
    }
  }

  const Json& config_;
  const ModelRule* rule_ = nullptr;  // never null once constructed
  bool legacy_ = false;              // the settings are rope_scaling's
  HuggingFaceRope result_;
};

}  // namespace

const RopeConfig& HuggingFaceRope::rope(std::string_view layer_type) const& {
  std::string known;
  for (const LayerRope& layer : layers) {
    const bool meant = layer.layer_type == layer_type || (layer_type.empty() && layers.size() == 1);
    if (meant) {
      PHASOR_CHECK(layer.rope.has_value(), kName, "layer_type: ", layer.layer_type, ", whose layers do not rotate");
      return *layer.rope;
    }
    known += (known.empty() ? "" : ", ") + (layer.layer_type.empty() ? "\"\"" : layer.layer_type);
  }
  fail(kName, "layer_type: \"", layer_type, "\", expected one of ", known);
}

HuggingFaceRope read_rope_config(std::string_view json) {
  PHASOR_CHECK(json.size() <= kLargestConfig, kName, "config: ", json.size(), " bytes, expected at most ",
               kLargestConfig);
  const Json config = parse_json_object(json, kName, "config");
  return Reader(config).read();
}

HuggingFaceRope load_rope_config(const std::filesystem::path& file) {
  constexpr const char* kLoad = "load_rope_config";
  std::error_code error;
  const std::filesystem::path path = std::filesystem::is_directory(file, error) ? file / "config.json" : file;
  std::ifstream stream(path, std::ios::binary);
  PHASOR_CHECK(stream.good(), kLoad, "file: ", path.string(), " cannot be read");
  std::string text;  // in pieces, since a pipe does not tell its size
  for (std::array<char, 4096> piece{}; text.size() <= kLargestConfig && stream;) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  PHASOR_CHECK(!stream.bad(), kLoad, "file: ", path.string(), " cannot be read");
  return read_rope_config(text);
}

}  // namespace phasor
