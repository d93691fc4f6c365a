#include "phasor/training/checkpoint.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "files/atomic_file.h"
#include "phasor/core/check.h"
#include "phasor/models/safetensors.h"
#include "phasor/models/transformer_json.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLoad = "load_model";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kWeightsFile = "model.safetensors";
constexpr const char* kStateFile = "training.json";
constexpr const char* kMomentsFile = "training.safetensors";

void write_model(const fs::path& folder, Transformer& model) {
  const NamedWeights weights = model.weights();
  std::vector<StoredTensor> tensors;
  for (const auto& [name, weight] : weights)
    tensors.push_back({name, StoredType::f32, weight->shape(), std::as_bytes(weight->value())});
  write_file(folder / kConfigFile, transformer_to_json(model.config()));
  save_tensors(folder / kWeightsFile, tensors, {{"format", "phasor"}});
}

std::string sizes_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

void check_shape(const StoredTensor& tensor, const std::string& path, const std::vector<std::int64_t>& shape) {
  PHASOR_CHECK(tensor.shape == shape, kLoad, path, ": ", tensor.name, " of shape ", sizes_text(tensor.shape),
               ", expected ", sizes_text(shape));
}

// The name of a tensor in a file. Version 0.1 called the table of log_sigma log_variance_embedding.
std::string name_in(const StoredTensors& file, const std::string& name) {
  constexpr std::string_view kNow = "log_sigma_embedding", kBefore = "log_variance_embedding";
  const std::size_t at = name.find(kNow);
  if (at == std::string::npos || file.find(name) != nullptr) return name;
  std::string before = name;
  return before.replace(at, kNow.size(), kBefore);
}

// The values of one tensor of a file; anything but the expected shape is refused.
void read_into(const StoredTensors& file, const std::string& path, const std::string& name,
               const std::vector<std::int64_t>& shape, std::span<float> values) {
  const StoredTensor& tensor = file.at(name_in(file, name));
  check_shape(tensor, path, shape);
  file.read_values(tensor, values);
}

}  // namespace

void save_model(const fs::path& folder, Transformer& model) {
  AtomicFolder saved(folder);
  write_model(saved.folder(), model);
  saved.commit();
}

void save_training(const fs::path& folder, Transformer& model, const TrainingState& state, const AdamW& optimizer) {
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

Checkpoint::Checkpoint(const fs::path& folder)
    : files_(folder, {kConfigFile, kWeightsFile, kStateFile, kMomentsFile}) {}

TransformerConfig Checkpoint::config() const {
  return transformer_from_json(files_.text(kConfigFile), files_.path(kConfigFile)).checked();
}

Transformer Checkpoint::model() const {
  const TransformerConfig config = this->config();
  const std::string path = files_.path(kWeightsFile);
  const TensorFile file(files_.bytes(kWeightsFile), path);
  check_shape(file.at("embedding.weight"), path, {config.vocab_size, config.hidden_size});
  check_size(kLoad, files_.path(kConfigFile), config, file);
  Transformer model = Transformer::with_zeros(config);
  const NamedWeights weights = model.weights();
  for (const auto& [name, weight] : weights) read_into(file, path, name, weight->shape(), weight->value());
  const auto stored_name = [&](const NamedWeight& each) { return name_in(file, each.name); };
  for (const StoredTensor& tensor : file.tensors())
    PHASOR_CHECK(std::ranges::count(weights, tensor.name, stored_name) == 1, kLoad, path, ": has ", tensor.name,
                 ", expected only weights of the model that ", kConfigFile, " describes");
  return model;
}

TrainingState Checkpoint::training_state() const {
  return training_from_json(files_.text(kStateFile), files_.path(kStateFile));
}

void Checkpoint::restore_optimizer(AdamW& optimizer) const {
  const std::string path = files_.path(kMomentsFile);
  const TensorFile file(files_.bytes(kMomentsFile), path);
  std::vector<AdamW::Moments> moments = optimizer.moments();
  for (AdamW::Moments& each : moments)
    for (auto& [prefix, values] : {std::pair("mean.", &each.mean), std::pair("square.", &each.square)})
      read_into(file, path, prefix + each.name, {values->size()},
                {values->data(), static_cast<std::size_t>(values->size())});
  optimizer.restore(training_state().steps_done, std::move(moments));
}

Transformer load_model(const fs::path& folder) { return Checkpoint(folder).model(); }

TrainingState load_training_state(const fs::path& folder) { return Checkpoint(folder).training_state(); }

}  // namespace phasor
