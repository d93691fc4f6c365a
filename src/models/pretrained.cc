// Models of the Hugging Face ecosystem: config.json and safetensors of Llama and Qwen3.
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "json/strict_json.h"
#include "phasor/core/mapped_file.h"
#include "phasor/models/safetensors.h"
#include "phasor/models/transformer.h"
#include "phasor/models/transformer_json.h"
#include "phasor/position/hugging_face.h"

namespace phasor {
namespace {

constexpr const char* kName = "from_pretrained";

// config.json with errors that name the file and the key.
class Config {
 public:
  explicit Config(const std::filesystem::path& path) : source_(path.string()) {
    const MappedFile file(path);
    json_ =
        parse_json_object({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, kName, source_);
  }

  std::int64_t integer(const char* key) const {
    const Json* value = find(key);
    PHASOR_CHECK(value && value->is_number_integer(), kName, source_, ": ", key, " is ",
                 value ? json_text(*value) : "missing", ", expected an integer");
    return value->get<std::int64_t>();
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) const { return find(key) ? integer(key) : otherwise; }
  double number(const char* key, double otherwise) const {
    const Json* value = find(key);
    PHASOR_CHECK(!value || value->is_number(), kName, source_, ": ", key, " is ", json_text(*value),
                 ", expected a number");
    return value ? value->get<double>() : otherwise;
  }
  bool flag(const char* key, bool otherwise) const {
    const Json* value = find(key);
    PHASOR_CHECK(!value || value->is_boolean(), kName, source_, ": ", key, " is ", json_text(*value),
                 ", expected true or false");
    return value ? value->get<bool>() : otherwise;
  }
  std::string text(const char* key, const char* otherwise) const {
    const Json* value = find(key);
    PHASOR_CHECK(!value || value->is_string(), kName, source_, ": ", key, " is ", json_text(*value),
                 ", expected a text");
    return value ? value->get<std::string>() : otherwise;
  }
  void expect(bool condition, const std::string& what) const { PHASOR_CHECK(condition, kName, source_, ": ", what); }

 private:
  const Json* find(const char* key) const {
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }

  std::string source_;
  Json json_;
};

TransformerConfig read_config(const std::filesystem::path& folder) {
  const Config config(folder / "config.json");
  const std::string type = config.text("model_type", "");
  config.expect(type == "llama" || type == "qwen3", "model_type is " + json_text(type) + ", expected llama or qwen3");
  const std::string activation = config.text("hidden_act", "silu");
  config.expect(activation == "silu", "hidden_act is " + json_text(activation) + ", expected silu");
  config.expect(!config.flag("mlp_bias", false), "mlp_bias is true, expected false");
  config.expect(!config.flag("use_sliding_window", false), "use_sliding_window is true, expected false");
  const HuggingFaceRope rope = load_rope_config(folder / "config.json");
  config.expect(rope.layers_without_rope.empty() && rope.layers.size() == 1 && rope.layers[0].rope.has_value(),
                "layers rotate differently, expected one rotation for all layers");
  const std::int64_t heads = config.integer("num_attention_heads");
  return {.vocab_size = config.integer("vocab_size"),
          .hidden_size = config.integer("hidden_size"),
          .num_hidden_layers = config.integer("num_hidden_layers"),
          .num_attention_heads = heads,
          .num_key_value_heads = config.integer("num_key_value_heads", heads),
          .head_dim = config.integer("head_dim", type == "qwen3" ? 128 : 0),
          .intermediate_size = config.integer("intermediate_size"),
          .max_position_embeddings = config.integer("max_position_embeddings", 2048),
          .rms_norm_eps = config.number("rms_norm_eps", 1e-6),
          .tie_word_embeddings = config.flag("tie_word_embeddings", false),
          .qk_norm = type == "qwen3",
          .attention_bias = config.flag("attention_bias", false),
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

}  // namespace

Transformer Transformer::from_pretrained(const std::filesystem::path& folder) {
  const TransformerConfig config = read_config(folder).checked();
  const TensorFolder tensors(folder);
  const bool tied = config.tie_word_embeddings;
  check_shape(folder, find_tensor(tensors, stored_name("embedding.weight"), tied),
              {config.vocab_size, config.hidden_size});
  check_size(kName, (folder / "config.json").string(), config, tensors);
  Transformer model = with_zeros(config);
  std::set<std::string> used;
  for (const NamedWeight& each : model.weights()) {
    const StoredTensor& tensor = find_tensor(tensors, stored_name(each.name), tied);
    check_shape(folder, tensor, each.weight->shape());
    tensors.read_values(tensor, each.weight->value());
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
