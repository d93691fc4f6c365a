// An architecture of Hugging Face is a row: how its config is read, and where its files have each weight.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config_file.h"
#include "phasor/models/safetensors.h"
#include "phasor/models/transformer.h"

namespace phasor::pretrained {

// Which part of a stored tensor a weight is. Rows are outputs, and heads are in groups of D rows.
enum class Part {
  whole,
  last_rows,  // as many as the weight has: positions after those of padding
  first_half,
  second_half,  // of the rows: gate and up
  query,
  key,
  value,  // all heads of the queries, then the keys, then the values
  query_of_head,
  key_of_head,
  value_of_head,  // query, key and value of head 0, then of head 1, ...
};

// Names have # for the number of a layer, and may end in * for the rest of the name: "weight" or "bias". Of several
// rows for a weight the first counts whose tensor is there.
struct TensorName {
  std::string_view ours, theirs;
  Part part = Part::whole;
  bool transposed = false;  // stored as [inputs, outputs]: GPT-2
  float plus = 0.0f;        // added to values: norms of 1 + w
};

struct Architecture {
  std::string_view model_type;
  TransformerConfig (*read)(ConfigFile&, const TensorFolder&);
  std::span<const TensorName> names;
  std::string_view prefix;  // of all names in files, which those of the model without a head lack
  // Tensors that a model of text does not use, by a part of their name.
  std::span<const std::string_view> unused = {};
};

// nullptr if there is none.
const Architecture* find_architecture(std::string_view model_type);
std::span<const Architecture> architectures();

// Reads the weights of a model, in bf16 as Transformer::from_pretrained says. Tensors that were used are added to
// `used`.
void load_weights(Transformer& model, std::span<const TensorName> names, std::string_view prefix,
                  const std::shared_ptr<const TensorFolder>& files, const std::filesystem::path& folder,
                  Precision precision, std::vector<std::string>& used);
// Whether the files have a head with other values than the table of embeddings. As in transformers, it is not tied
// then, whatever config.json says.
bool has_head_of_its_own(const TensorFolder& files, std::span<const TensorName> names, std::string_view prefix);
// Refuses tensors that are neither used nor known to be of no use.
void check_all_used(const TensorFolder& files, const std::filesystem::path& folder, std::vector<std::string> used,
                    std::span<const std::string_view> unused);

// ---- what config readers share ----

// The rotation of a model whose layers are all alike, but for those without one.
void read_rotation(ConfigFile& config, TransformerConfig& to);
// The same where layers have types: `layer_types` of the config, or made by `slides`, which says whether layer i has
// the window. Layers that slide may have a rotation of their own; if none slides, the window becomes 0.
void read_layer_types(ConfigFile& config, const std::function<bool(std::int64_t)>& slides, TransformerConfig& to);

// The families, one for each file.
TransformerConfig read_llama(ConfigFile&, const TensorFolder&);
TransformerConfig read_gemma(ConfigFile&, const TensorFolder&);
TransformerConfig read_gpt2(ConfigFile&, const TensorFolder&);
TransformerConfig read_gpt_neox(ConfigFile&, const TensorFolder&);
TransformerConfig read_bloom(ConfigFile&, const TensorFolder&);
TransformerConfig read_mpt(ConfigFile&, const TensorFolder&);
TransformerConfig read_bert(ConfigFile&, const TensorFolder&);
TransformerConfig read_modernbert(ConfigFile&, const TensorFolder&);
extern const std::span<const TensorName> kLlamaNames, kPhi3Names, kGemmaNames, kGpt2Names, kGptNeoxNames, kBloomNames,
    kMptNames, kBertNames, kRobertaNames, kModernBertNames;

}  // namespace phasor::pretrained
