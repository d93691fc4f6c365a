#include "phasor/training/checkpoint.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "phasor/core/atomic_file.h"
#include "phasor/core/check.h"
#include "phasor/core/mapped_file.h"
#include "phasor/models/decoder_json.h"
#include "phasor/models/safetensors.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLoad = "load_model";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kWeightsFile = "model.safetensors";
constexpr const char* kStateFile = "training.json";
constexpr const char* kMomentsFile = "training.safetensors";

std::string text_of(const fs::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void write_model(const fs::path& folder, Decoder& model) {
  const NamedWeights weights = model.weights();
  std::vector<StoredTensor> tensors;
  for (const auto& [name, weight] : weights)
    tensors.push_back({name, StoredType::f32, weight->shape(), std::as_bytes(weight->value())});
  write_file(folder / kConfigFile, decoder_to_json(model.config()));
  save_tensors(folder / kWeightsFile, tensors, {{"format", "phasor"}});
}

std::string sizes_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

void check_shape(const StoredTensor& tensor, const fs::path& path, const std::vector<std::int64_t>& shape) {
  PHASOR_CHECK(tensor.shape == shape, kLoad, path.string(), ": ", tensor.name, " of shape ", sizes_text(tensor.shape),
               ", expected ", sizes_text(shape));
}

// The values of one tensor of a file; anything but the expected shape is refused.
void read_into(const StoredTensors& file, const fs::path& path, const std::string& name,
               const std::vector<std::int64_t>& shape, std::span<float> values) {
  const StoredTensor& tensor = file.at(name);
  check_shape(tensor, path, shape);
  file.read_values(tensor, values);
}

}  // namespace

void save_model(const fs::path& folder, Decoder& model) {
  AtomicFolder saved(folder);
  write_model(saved.folder(), model);
  saved.commit();
}

Decoder load_model(const fs::path& folder) {
  const fs::path from = readable_folder(folder);
  const fs::path config_file = from / kConfigFile, weights_file = from / kWeightsFile;
  const DecoderConfig config = decoder_from_json(text_of(config_file), config_file.string()).checked();
  const TensorFolder file(from);
  // Before memory is taken for what config.json says.
  check_shape(file.at("embedding.weight"), weights_file, {config.vocab_size, config.hidden_size});
  Decoder model(config, 0);
  const NamedWeights weights = model.weights();
  for (const auto& [name, weight] : weights) read_into(file, weights_file, name, weight->shape(), weight->value());
  for (const StoredTensor& tensor : file.tensors())
    PHASOR_CHECK(std::ranges::count(weights, tensor.name, &NamedWeight::name) == 1, kLoad, weights_file.string(),
                 ": has ", tensor.name, ", expected only weights of the model that ", kConfigFile, " describes");
  return model;
}

void save_training(const fs::path& folder, Decoder& model, const TrainingState& state, const AdamW& optimizer) {
  PHASOR_CHECK(state.steps_done == optimizer.steps_done(), "save_training", "state: ", state.steps_done,
               " steps done, expected the optimizer's ", optimizer.steps_done());
  std::vector<StoredTensor> tensors;
  for (const AdamW::Moments& moments : optimizer.moments()) {
    tensors.push_back(stored("mean." + moments.name, moments.mean));
    tensors.push_back(stored("square." + moments.name, moments.square));
  }
  AtomicFolder saved(folder);
  write_model(saved.folder(), model);
  write_file(saved.folder() / kStateFile, training_to_json(state));
  save_tensors(saved.folder() / kMomentsFile, tensors);
  saved.commit();
}

TrainingState load_training_state(const fs::path& folder) {
  const fs::path file = readable_folder(folder) / kStateFile;
  return training_from_json(text_of(file), file.string());
}

void restore_optimizer(const fs::path& folder, const TrainingState& state, AdamW& optimizer) {
  const fs::path path = readable_folder(folder) / kMomentsFile;
  const TensorFile file(path);
  std::vector<AdamW::Moments> moments = optimizer.moments();
  for (AdamW::Moments& each : moments)
    for (auto& [prefix, values] : {std::pair("mean.", &each.mean), std::pair("square.", &each.square)})
      read_into(file, path, prefix + each.name, {values->size()},
                {values->data(), static_cast<std::size_t>(values->size())});
  optimizer.restore(state.steps_done, std::move(moments));
}

}  // namespace phasor
