#include "phasor/position/hugging_face.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "hugging_face_models.h"
#include "json.h"
#include "phasor/core/check.h"
#include "rope_keys.h"

namespace phasor {
namespace {

constexpr const char* kName = "read_rope_config";
constexpr std::size_t kLargestConfig = std::size_t{16} << 20;  // bytes

// ---- values of the right type ----

// The value of a key; nothing when the key is missing or null.
const Json* find(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

[[noreturn]] void fail_type(std::string_view key, const Json& value, std::string_view expected) {
  fail(kName, key, ": ", json_text(value), ", expected ", expected);
}

double to_number(std::string_view key, const Json& value) {
  if (!value.is_number()) fail_type(key, value, "a number");
  return value.get<double>();
}

std::int64_t to_integer(std::string_view key, const Json& value) {
  constexpr double kLargest = 1e15;
  const bool whole = value.is_number() && std::floor(value.get<double>()) == value.get<double>();
  if (!whole || std::fabs(value.get<double>()) > kLargest) fail_type(key, value, "a whole number");
  return static_cast<std::int64_t>(value.get<double>());
}

bool to_bool(std::string_view key, const Json& value) {
  if (!value.is_boolean()) fail_type(key, value, "true or false");
  return value.get<bool>();
}

std::string to_string(std::string_view key, const Json& value) {
  if (!value.is_string()) fail_type(key, value, "a string");
  return value.get<std::string>();
}

template <class Element, class Convert>
std::vector<Element> to_list(std::string_view key, const Json& value, std::string_view expected,
                             const Convert& convert) {
  if (!value.is_array()) fail_type(key, value, expected);
  std::vector<Element> list;
  for (const Json& element : value) list.push_back(convert(key, element));
  return list;
}

// The first of several names that is given.
std::optional<std::int64_t> integer_of(const Json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const Json* value = find(config, key)) return to_integer(key, *value);
  return std::nullopt;
}

// A number whose null is not the same as its absence: null is refused.
std::optional<double> number_not_null(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  return to_number(key, *found);
}

// ---- the reader ----

class Reader {
 public:
  explicit Reader(const Json& whole) : config_(text_part(whole)) {
    const Json* type = find(config_, "model_type");
    if (type == nullptr) type = find(whole, "model_type");
    if (type != nullptr) result_.model_type = to_string("model_type", *type);
    rule_ = find_model_rule(result_.model_type);
    if (rule_ == nullptr) check_has_rotary_keys();
    if (const Json* alibi = find(config_, "alibi"))
      PHASOR_CHECK(!to_bool("alibi", *alibi), kName, "alibi: true, expected a model that rotates");
  }

  HuggingFaceRope read() {
    const Json parameters = chosen_parameters();
    if (rule_ != nullptr && rule_->sliding_theta != 0.0) {
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

  void check_has_rotary_keys() {
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"})
      if (config_.contains(key)) return;
    fail(kName, "model_type: \"", result_.model_type,
         "\", which phasor does not know to rotate; expected rope_parameters, rope_scaling or rope_theta");
  }

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
    if (rule_ != nullptr && !rule_->parameters.empty()) return Json::parse(rule_->parameters);
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
    PHASOR_CHECK(rule_ == nullptr, kName, "rope_parameters: nested by layer type, but model_type ", result_.model_type,
                 " has one rotary embedding");
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
    const Json* layers = find(config_, "no_rope_layers");
    if (layers != nullptr && !layers->empty()) {
      const auto uses = to_list<std::int64_t>("no_rope_layers", *layers, "a list of 0 and 1", to_integer);
      for (std::size_t i = 0; i < uses.size(); i++)
        if (uses[i] == 0) result_.layers_without_rope.push_back(static_cast<std::int64_t>(i));
      return;
    }
    if (rule_ == nullptr || !rule_->rope_in_some_layers) return;
    const std::int64_t interval = integer_of(config_, {"no_rope_layer_interval"}).value_or(4);
    const std::int64_t count = integer_of(config_, {"num_hidden_layers"}).value_or(0);
    constexpr std::int64_t kMost = 100'000;
    PHASOR_CHECK(interval >= 1 && count <= kMost, kName, "no_rope_layer_interval: ", interval,
                 ", num_hidden_layers: ", count, ", expected 1 or more and at most ", kMost);
    for (std::int64_t i = interval - 1; i < count; i += interval) result_.layers_without_rope.push_back(i);
  }

  // ---- one rotary embedding ----

  RopeConfig rope_of(const Json& parameters, std::string_view layer_type) {
    RopeConfig rope;
    rope.head_dim = head_dim(layer_type);
    rope.theta = theta(parameters, layer_type);
    rope.max_position_embeddings = integer_of(config_, {"max_position_embeddings"}).value_or(0);
    rope.pairing = pairing();
    rope.scores_follow_mscale = rule_ != nullptr && rule_->scores_follow_mscale;
    read_scaling(parameters, layer_type, rope);
    read_axes(parameters, rope);
    const double part = partial(parameters, rope.head_dim);
    PHASOR_CHECK(part > 0.0 && part <= 1.0, kName, "partial_rotary_factor: ", part, ", expected above 0 and at most 1");
    const double channels = static_cast<double>(rope.head_dim) * part;
    rope.rotary_dim = rope.scaling.type == "proportional" ? 2 * static_cast<std::int64_t>(channels / 2.0)
                                                          : static_cast<std::int64_t>(channels);
    if (rope.rotary_dim == 0) rope.rotary_dim = 1;  // validate says what is wrong with it
    validate(rope);
    return rope;
  }

  std::int64_t head_dim(std::string_view layer_type) const {
    if (result_.model_type.starts_with("gemma4") && layer_type == "full_attention")
      return integer_of(config_, {"global_head_dim"}).value_or(512);
    if (const auto given = integer_of(config_, {"qk_rope_head_dim", "head_dim"})) return *given;
    if (rule_ != nullptr && rule_->head_dim != 0) return rule_->head_dim;
    const auto width = integer_of(config_, {"hidden_size", "n_embd", "embed_dim", "d_model"});
    const auto heads = integer_of(config_, {"num_attention_heads", "n_head", "num_heads"});
    PHASOR_CHECK(width && heads, kName, "head_dim: missing, expected it, or hidden_size and num_attention_heads");
    PHASOR_CHECK(*heads >= 1 && *width >= 1 && *width % *heads == 0, kName, "num_attention_heads: ", *heads,
                 ", expected a divisor of hidden_size ", *width);
    return *width / *heads;
  }

  double theta(const Json& parameters, std::string_view layer_type) {
    if (const auto inside = number_not_null(parameters, "rope_theta")) return *inside;
    PHASOR_CHECK(rule_ == nullptr || rule_->sliding_theta == 0.0 || rule_->legacy != LegacyScaling::refused ||
                     parameters.empty(),
                 kName, "rope_theta: missing for ", layer_type, ", expected a number");
    const bool sliding = layer_type == "sliding_attention" && rule_ != nullptr && rule_->sliding_theta != 0.0;
    if (sliding) {
      for (const char* key : {"rope_local_base_freq", "local_rope_theta"})
        if (const auto given = number_not_null(config_, key)) return *given;
      return rule_->sliding_theta;
    }
    const bool neox = result_.model_type.starts_with("gpt_neox");
    if (neox && config_.contains("rope_theta")) note("rope_theta: not used by gpt_neox, whose key is rotary_emb_base");
    for (const char* key : {"rope_theta", "global_rope_theta", "rotary_emb_base"}) {
      if (neox && std::string_view(key) == "rope_theta") continue;
      if (const auto given = number_not_null(config_, key)) return *given;
    }
    if (rule_ != nullptr) return rule_->theta;
    note("rope_theta: not given, 10000 is assumed");
    return 10000.0;
  }

  double partial(const Json& parameters, std::int64_t head) const {
    if (const auto inside = number_not_null(parameters, "partial_rotary_factor")) return *inside;
    for (const char* key : {"partial_rotary_factor", "rotary_pct"}) {
      const auto outside = config_.find(key);
      if (outside != config_.end()) return outside->is_null() ? 1.0 : to_number(key, *outside);
    }
    if (const auto channels = integer_of(config_, {"rotary_dim"}))
      return static_cast<double>(*channels) / static_cast<double>(head);
    return rule_ == nullptr ? 1.0 : rule_->partial;
  }

  Pairing pairing() const {
    if (rule_ == nullptr || rule_->interleave == Interleave::never) return Pairing::half;
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
    const std::string& model = result_.model_type;
    if ((type == "su" || type == "yarn") && (model == "phi3" || model == "phi4_multimodal")) return "longrope";
    if (type == "mrope" && model.starts_with("qwen2") && rule_ != nullptr && rule_->axes == AxisLayout::chunked)
      return "default";
    if (type == "dynamic" && model.starts_with("hunyuan") && find(parameters, "alpha") != nullptr) return "ntk";
    std::string known;
    for (const RopeType& row : rope_types()) {
      if (!row.in_hugging_face) continue;
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
      return std::ranges::find(type.required, key) != type.required.end() ||
             std::ranges::find(type.optional, key) != type.optional.end();
    };
    std::set<std::string_view> known{"rope_type",        "type", "rope_theta", "partial_rotary_factor", "mrope_section",
                                     "mrope_interleaved"};
    for (const RopeKey& key : kRopeKeys) {
      if (!uses(key.name)) continue;
      known.insert(key.name);
      if (parameters.contains(key.name)) read_key(key, parameters[key.name], scaling);
    }
    if (uses("original_max_position_embeddings")) read_original_length(layer_type, rope);
    if (scaling.type == "ntk") {  // Hunyuan's fixed base
      scaling.factor = to_number("alpha", parameters["alpha"]);
      return;
    }
    for (const auto& [key, value] : parameters.items())
      if (!known.contains(key)) note(key, ": not used by type ", scaling.type);
  }

  static void read_key(const RopeKey& key, const Json& value, RopeScaling& scaling) {
    if (value.is_null()) {  // not given; but null means false for truncate and fails for the original length
      if (key.name == "truncate") fail_type(key.name, value, "true or false");
      if (key.name == "original_max_position_embeddings") fail_type(key.name, value, "a whole number");
      return;
    }
    struct Read {
      std::string_view name;
      const Json& value;
      RopeScaling& scaling;
      void operator()(std::optional<double> RopeScaling::*member) { scaling.*member = to_number(name, value); }
      void operator()(std::optional<std::int64_t> RopeScaling::*member) { scaling.*member = to_integer(name, value); }
      void operator()(std::optional<bool> RopeScaling::*member) { scaling.*member = to_bool(name, value); }
      void operator()(std::vector<double> RopeScaling::*member) {
        scaling.*member = to_list<double>(name, value, "a list of numbers", to_number);
      }
    };
    std::visit(Read{key.name, value, scaling}, key.member);
  }

  // Flat settings: the config's own value wins over that beside the type; else the length the model was made for.
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

  // ---- axes ----

  void read_axes(const Json& parameters, RopeConfig& rope) {
    const Json* sections = find(parameters, "mrope_section");
    if (rule_ != nullptr) {
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
  const ModelRule* rule_ = nullptr;
  bool legacy_ = false;  // the settings are rope_scaling's
  HuggingFaceRope result_;
};

}  // namespace

const RopeConfig& HuggingFaceRope::rope(std::string_view layer_type) const {
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
  const Json config = parse_json_object(kName, json);
  return Reader(config).read();
}

HuggingFaceRope load_rope_config(const std::filesystem::path& file) {
  const std::filesystem::path path = std::filesystem::is_directory(file) ? file / "config.json" : file;
  std::ifstream stream(path, std::ios::binary);
  PHASOR_CHECK(stream.good(), "load_rope_config", "file: ", path.string(), " cannot be read");
  std::string text(kLargestConfig + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  PHASOR_CHECK(!stream.bad(), "load_rope_config", "file: ", path.string(), " cannot be read");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return read_rope_config(text);
}

}  // namespace phasor
