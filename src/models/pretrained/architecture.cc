#include "architecture.h"

#include <algorithm>

#include "phasor/position/hugging_face.h"

namespace phasor::pretrained {
namespace {

constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";

constexpr std::string_view kPooler[] = {
    "pooler.",      "position_ids",    "cls.seq_relationship", "cls.predictions.bias", "cls.predictions.decoder.",
    "lm_head.bias", "lm_head.decoder."};
constexpr std::string_view kMasks[] = {".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias",
                                       "rotary_emb.inv_freq"};
constexpr std::string_view kFrequencies[] = {"rotary_emb.inv_freq"};
constexpr std::string_view kMiniMind[] = {"freqs_cos", "freqs_sin"};

}  // namespace

std::span<const Architecture> architectures() {
  static const Architecture kArchitectures[] = {
      {"bert", read_bert, kBertNames, "bert.", kPooler},
      {"bloom", read_bloom, kBloomNames, "transformer."},
      {"camembert", read_bert, kRobertaNames, "roberta.", kPooler},
      {"gemma2", read_gemma, kGemmaNames, "model.", kFrequencies},
      {"gemma3_text", read_gemma, kGemmaNames, "model.", kFrequencies},
      {"gpt2", read_gpt2, kGpt2Names, "transformer.", kMasks},
      {"gpt_neox", read_gpt_neox, kGptNeoxNames, "gpt_neox.", kMasks},
      {"llama", read_llama, kLlamaNames, "model.", kFrequencies},
      {"minimind", read_llama, kLlamaNames, "model.", kMiniMind},
      {"mistral", read_llama, kLlamaNames, "model.", kFrequencies},
      {"modernbert", read_modernbert, kModernBertNames, "model."},
      {"mpt", read_mpt, kMptNames, "transformer."},
      {"phi3", read_llama, kPhi3Names, "model.", kFrequencies},
      {"qwen2", read_llama, kLlamaNames, "model.", kFrequencies},
      {"qwen3", read_llama, kLlamaNames, "model.", kFrequencies},
      {"roberta", read_bert, kRobertaNames, "roberta.", kPooler},
      {"smollm3", read_llama, kLlamaNames, "model.", kFrequencies},
      {"xlm-roberta", read_bert, kRobertaNames, "roberta.", kPooler},
  };
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view model_type) {
  const auto found = std::ranges::find(architectures(), model_type, &Architecture::model_type);
  return found == architectures().end() ? nullptr : &*found;
}

namespace {

std::vector<std::string> layer_types_of(ConfigFile& config, std::int64_t layers,
                                        const std::function<bool(std::int64_t)>& slides) {
  constexpr std::int64_t kMostLayers = 1 << 16;
  if (layers < 0 || layers > kMostLayers) return {};  // which the model's own check refuses
  std::vector<std::string> types;
  for (std::int64_t i = 0; i < layers; i++) types.emplace_back(slides(i) ? kSliding : kFull);
  types = config.get("layer_types", types);
  const bool known =
      std::ranges::all_of(types, [](const std::string& type) { return type == kFull || type == kSliding; });
  if (std::ssize(types) != layers || !known)
    config.refuse("layer_types",
                  "full_attention or sliding_attention for each of " + std::to_string(layers) + " layers");
  return types;
}

std::vector<std::int64_t> layers_of(std::string_view type, const std::vector<std::string>& types) {
  std::vector<std::int64_t> layers;
  for (std::size_t i = 0; i < types.size(); i++)
    if (types[i] == type) layers.push_back(static_cast<std::int64_t>(i));
  return layers;
}

void read_rotation(ConfigFile& config, const std::vector<std::string>& types, TransformerConfig& to) {
  config.read_elsewhere({"no_rope_layers", "partial_rotary_factor"});
  const HuggingFaceRope rope = load_rope_config(config.source());
  const auto encoding_of = [](const LayerRope& layer) -> EncodingConfig {
    if (layer.rope) return *layer.rope;
    return NoneConfig{};
  };
  const auto most = std::ranges::find(rope.layers, kFull, &LayerRope::layer_type);
  const LayerRope& main = most == rope.layers.end() ? rope.layers.front() : *most;
  to.encoding = encoding_of(main);
  for (const LayerRope& layer : rope.layers) {
    const std::vector<std::int64_t> layers = layers_of(layer.layer_type, types);
    if (&layer != &main && !layers.empty()) to.layer_encodings.push_back({layers, encoding_of(layer)});
  }
  if (!rope.layers_without_rope.empty()) to.layer_encodings.push_back({rope.layers_without_rope, NoneConfig{}});
}

}  // namespace

void read_rotation(ConfigFile& config, TransformerConfig& to) { read_rotation(config, {}, to); }

void read_layer_types(ConfigFile& config, const std::function<bool(std::int64_t)>& slides, TransformerConfig& to) {
  const std::vector<std::string> types = layer_types_of(config, to.num_hidden_layers, slides);
  to.sliding_layers = layers_of(kSliding, types);
  if (to.sliding_layers.empty()) to.sliding_window = 0;
  read_rotation(config, types, to);
}

}  // namespace phasor::pretrained
