// Models of the Hugging Face ecosystem: config.json and safetensors of Llama and Qwen3.
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "json/fields.h"
#include "phasor/core/mapped_file.h"
#include "phasor/models/safetensors.h"
#include "phasor/models/transformer.h"
#include "phasor/models/transformer_json.h"
#include "phasor/position/hugging_face.h"

namespace phasor {
namespace {

constexpr const char* kName = "from_pretrained";

// What is read of a config.json; names and defaults are those of Hugging Face.
struct PretrainedConfig {
  std::string model_type, hidden_act;
  bool mlp_bias = false, use_sliding_window = false, tie_word_embeddings = false, attention_bias = false;
  std::int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0, num_attention_heads = 0, num_key_value_heads = 0;
  std::int64_t head_dim = 0, intermediate_size = 0, max_position_embeddings = 0;
  double rms_norm_eps = 0.0;
};

void fields(FieldReader& archive, PretrainedConfig& of) {
  archive.since("hidden_act", of.hidden_act, {"silu"});
  archive.since("mlp_bias", of.mlp_bias, false);
  archive.since("use_sliding_window", of.use_sliding_window, false);
  archive.since("tie_word_embeddings", of.tie_word_embeddings, false);
  archive.since("attention_bias", of.attention_bias, false);
  archive("vocab_size", of.vocab_size);
  archive("hidden_size", of.hidden_size);
  archive("num_hidden_layers", of.num_hidden_layers);
  archive("num_attention_heads", of.num_attention_heads);
  archive.since("num_key_value_heads", of.num_key_value_heads, of.num_attention_heads);
  archive.since("head_dim", of.head_dim, {of.model_type == "qwen3" ? 128 : 0});
  archive("intermediate_size", of.intermediate_size);
  archive.since("max_position_embeddings", of.max_position_embeddings, {2048});
  archive.since("rms_norm_eps", of.rms_norm_eps, 1e-6);
}

// Only what is known is read: such files have many more keys. A null is a key that was not given.
Json read_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  Json json = parse_json_object({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, kName,
                                path.string());
  for (auto at = json.begin(); at != json.end();) at = at->is_null() ? json.erase(at) : std::next(at);
  return json;
}

TransformerConfig read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  const auto expect = [&](bool condition, const std::string& what) {
    PHASOR_CHECK(condition, kName, path.string(), ": ", what);
  };
  const Json json = read_file(path);
  FieldReader reader(json, kName, path.string());
  PretrainedConfig config;
  reader.since("model_type", config.model_type, {});  // first: other types have other keys
  const bool qwen3 = config.model_type == "qwen3";
  expect(config.model_type == "llama" || qwen3,
         "model_type is " + json_text(config.model_type) + ", expected llama or qwen3");
  fields(reader, config);
  expect(config.hidden_act == "silu", "hidden_act is " + json_text(config.hidden_act) + ", expected silu");
  expect(!config.mlp_bias, "mlp_bias is true, expected false");
  expect(!config.use_sliding_window, "use_sliding_window is true, expected false");
  const HuggingFaceRope rope = load_rope_config(path);
  expect(rope.layers_without_rope.empty() && rope.layers.size() == 1 && rope.layers[0].rope.has_value(),
         "layers rotate differently, expected one rotation for all layers");
  return {.vocab_size = config.vocab_size,
          .hidden_size = config.hidden_size,
          .num_hidden_layers = config.num_hidden_layers,
          .num_attention_heads = config.num_attention_heads,
          .num_key_value_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .intermediate_size = config.intermediate_size,
          .max_position_embeddings = config.max_position_embeddings,
          .rms_norm_eps = config.rms_norm_eps,
          .tie_word_embeddings = config.tie_word_embeddings,
          .qk_norm = qwen3,
          .attention_bias = config.attention_bias,
          .encoding = rope.rope()};
}

// Our name of a weight in theirs: "blocks.3.ffn.up_proj.weight" is "model.layers.3.mlp.up_proj.weight".
std::string stored_name(const std::string& name) {
  if (name == "embedding.weight") return "model.embed_tokens.weight";
  if (name == "norm.weight") return "model.norm.weight";
  if (name == "head.weight") return "lm_head.weight";
  static const std::map<std::string, std::string> parts{{"attention_norm", "input_layernorm"},
                                                        {"attention", "self_attn"},
                                                        {"ffn_norm", "post_attention_layernorm"},
                                                        {"ffn", "mlp"}};
  const std::size_t layer = name.find('.') + 1, part = name.find('.', layer) + 1, rest = name.find('.', part);
  return "model.layers." + name.substr(layer, part - layer) + parts.at(name.substr(part, rest - part)) +
         name.substr(rest);
}

// A tied table may be stored as the embedding or as the head.
const StoredTensor& find_tensor(const TensorFolder& tensors, const std::string& name, bool tied) {
  const StoredTensor* head = tied && name == "model.embed_tokens.weight" ? tensors.find("lm_head.weight") : nullptr;
  const StoredTensor* tensor = tensors.find(name);
  return tensor == nullptr && head != nullptr ? *head : tensors.at(name);
}

std::string shape_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

void check_shape(const std::filesystem::path& folder, const StoredTensor& tensor,
                 const std::vector<std::int64_t>& expected) {
  PHASOR_CHECK(tensor.shape == expected, kName, folder.string(), ": ", tensor.name, " is ", shape_of(tensor.shape),
               ", expected ", shape_of(expected));
}

// The values of a tensor where they lie, or none if the file has them at an odd address.
std::shared_ptr<const bf16> values_in_place(const std::shared_ptr<const TensorFolder>& tensors,
                                            const StoredTensor& tensor) {
  const std::byte* bytes = tensor.bytes.data();
  if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(bf16) != 0) return nullptr;
  return {tensors, reinterpret_cast<const bf16*>(bytes)};
}

void read_weight(const std::shared_ptr<const TensorFolder>& tensors, const StoredTensor& tensor,
                 const NamedWeight& weight, Precision precision) {
  const bool may_be_bf16 = precision != Precision::float32 && Transformer::may_be_bf16(weight);
  const bool stored = tensor.type == StoredType::bf16;
  if (const auto values = may_be_bf16 && stored ? values_in_place(tensors, tensor) : nullptr)
    return weight.weight->keep_bf16(values);
  tensors->read_values(tensor, weight.weight->value());
  if (may_be_bf16 && (stored || precision == Precision::bf16)) weight.weight->round_to_bf16();
}

}  // namespace

Transformer Transformer::from_pretrained(const std::filesystem::path& folder, Precision precision) {
  const TransformerConfig config = read_config(folder).checked();
  const auto files = std::make_shared<const TensorFolder>(folder);
  const TensorFolder& tensors = *files;
  const bool tied = config.tie_word_embeddings;
  check_shape(folder, find_tensor(tensors, stored_name("embedding.weight"), tied),
              {config.vocab_size, config.hidden_size});
  check_size(kName, (folder / "config.json").string(), config, tensors);
  Transformer model = with_zeros(config);
  std::set<std::string> used;
  for (const NamedWeight& each : model.weights()) {
    const StoredTensor& tensor = find_tensor(tensors, stored_name(each.name), tied);
    check_shape(folder, tensor, each.weight->shape());
    read_weight(files, tensor, each, precision);
    used.insert(tensor.name);
  }
  for (const StoredTensor& tensor : tensors.tensors()) {
    const bool known = used.contains(tensor.name) || tensor.name.ends_with("rotary_emb.inv_freq") ||
                       (tied && tensor.name == "lm_head.weight");
    PHASOR_CHECK(known, kName, folder.string(), ": has a tensor ", tensor.name, ", which this architecture does not");
  }
  return model;
}

}  // namespace phasor
