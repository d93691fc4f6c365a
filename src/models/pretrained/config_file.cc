#include "config_file.h"

#include <array>
#include <iterator>
#include <map>

#include "phasor/core/mapped_file.h"

namespace phasor::pretrained {
namespace {

// Keys that change what some model computes. Those that an architecture has are read by it.
constexpr std::array kMatters{"add_cross_attention",
                              "add_final_layer_norm",
                              "alibi",
                              "apply_residual_connection_post_layernorm",
                              "attention_multiplier",
                              "attn_logit_softcapping",
                              "clip_qkv",
                              "embedding_multiplier",
                              "emb_scale",
                              "final_logit_softcapping",
                              "is_decoder",
                              "layer_types",
                              "logit_scale",
                              "logits_scaling",
                              "mlp_bias",
                              "moe_intermediate_size",
                              "n_routed_experts",
                              "no_rope_layers",
                              "normalize_before",
                              "num_experts",
                              "num_local_experts",
                              "partial_rotary_factor",
                              "qk_layernorm",
                              "quantization_config",
                              "reorder_and_upcast_attn",
                              "residual_multiplier",
                              "scale_attn_by_inverse_layer_idx",
                              "scale_embedding",
                              "sliding_window",
                              "use_bidirectional_attention",
                              "use_moe",
                              "use_qk_norm",
                              "use_sliding_window"};

bool asks_for_something(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0.0;
  return !value.empty();
}

Json read_json(const std::filesystem::path& path) {
  const MappedFile file(path);
  Json json = parse_json_object({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, kReader,
                                path.string());
  if (const auto text = json.find("text_config"); text != json.end() && text->is_object()) json = Json(*text);
  return json;
}

// Takes out keys that are null, and returns their names.
std::set<std::string> erase_nulls(Json& json) {
  std::set<std::string> names;
  for (auto at = json.begin(); at != json.end();) {
    if (at->is_null()) names.insert(at.key());
    at = at->is_null() ? json.erase(at) : std::next(at);
  }
  return names;
}

}  // namespace

ConfigFile::ConfigFile(const std::filesystem::path& folder)
    : ConfigFile((folder / "config.json").string(), read_json(folder / "config.json")) {}

ConfigFile::ConfigFile(std::string source, Json json)
    : source_(std::move(source)), json_(std::move(json)), nulls_(erase_nulls(json_)), reader_(json_, kReader, source_) {
  model_type_ = text("model_type", "");
}

std::int64_t ConfigFile::checked(const char* key, std::int64_t value) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  if (value < -kMost || value > kMost) refuse(key, "at most " + std::to_string(kMost));
  return value;
}

std::int64_t ConfigFile::positive(const char* key, std::int64_t otherwise) {
  const std::int64_t value = integer(key, otherwise);
  if (value < 1) refuse(key, "1 or more");
  return value;
}

std::int64_t ConfigFile::integer(std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (has(key)) return integer(key);
  return integer(*keys.begin());
}

Activation ConfigFile::activation(const char* key, const std::string& otherwise) {
  static const std::map<std::string, Activation> kNames{{"silu", Activation::silu},
                                                        {"swish", Activation::silu},
                                                        {"gelu", Activation::gelu},
                                                        {"gelu_new", Activation::gelu_tanh},
                                                        {"gelu_fast", Activation::gelu_tanh},
                                                        {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                        {"relu", Activation::relu}};
  const auto found = kNames.find(text(key, otherwise));
  if (found == kNames.end()) {
    std::string names;
    for (const auto& [name, activation] : kNames) names += (names.empty() ? "" : ", ") + name;
    refuse(key, "one of " + names);
  }
  return found->second;
}

void ConfigFile::finish() const {
  for (const char* key : kMatters) {
    const auto found = json_.find(key);
    PHASOR_CHECK(reader_.asked_for(key) || found == json_.end() || !asks_for_something(*found), kReader, source_, ": ",
                 key, ": ", json_text(*found), ", which models of type ", model_type_, " do not have here");
  }
}

}  // namespace phasor::pretrained
