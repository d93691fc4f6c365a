// Models of the Hugging Face ecosystem: config.json and safetensors.
#include <memory>
#include <string>

#include "architecture.h"
#include "phasor/models/transformer_json.h"

namespace phasor {

Transformer Transformer::from_pretrained(const std::filesystem::path& folder, Precision precision) {
  using namespace pretrained;
  ConfigFile file(folder);
  const Architecture* architecture = find_architecture(file.model_type());
  if (architecture == nullptr) {
    std::string known;
    for (const Architecture& each : architectures())
      known += (known.empty() ? "" : ", ") + std::string(each.model_type);
    fail(kReader, file.source(), ": model_type is ", json_text(Json(file.model_type())), ", expected one of ", known);
  }
  const auto files = std::make_shared<const TensorFolder>(folder);
  TransformerConfig config = architecture->read(file, *files).checked();
  if (config.tie_word_embeddings && config.output_head)
    config.tie_word_embeddings = !has_head_of_its_own(*files, architecture->names, architecture->prefix);
  file.finish();
  check_size(kReader, file.source(), config, *files);
  Transformer model = with_zeros(config);
  std::vector<std::string> used;
  load_weights(model, architecture->names, architecture->prefix, files, folder, precision, used);
  check_all_used(*files, folder, std::move(used), architecture->unused);
  return model;
}

}  // namespace phasor
