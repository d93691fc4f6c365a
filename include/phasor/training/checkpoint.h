// A model in a folder, replaced all at once:
//
//   config.json            the model's settings (models/transformer_json.h)
//   model.safetensors      its weights, by name
//   training.json          how far a training has come (training/settings.h)
//   training.safetensors   the optimizer's moments: mean.NAME and square.NAME
//
// The last two are there when training can be resumed. Errors name the file and the fault.
#pragma once

#include <filesystem>

#include "phasor/core/folder_snapshot.h"
#include "phasor/models/transformer.h"
#include "phasor/training/optimizer.h"
#include "phasor/training/settings.h"

namespace phasor {

void save_model(const std::filesystem::path& folder, Transformer& model);
void save_training(const std::filesystem::path& folder, Transformer& model, const TrainingState& state,
                   const AdamW& optimizer);

// The files of one save, opened at once: model, state and moments belong together, though a training may save again
// while they are read.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);

  TransformerConfig config() const;
  Transformer model() const;
  TrainingState training_state() const;
  // The moments and the number of steps, into an optimizer of the checkpoint's model.
  void restore_optimizer(AdamW& optimizer) const;

 private:
  FolderSnapshot files_;
};

Transformer load_model(const std::filesystem::path& folder);
TrainingState load_training_state(const std::filesystem::path& folder);

}  // namespace phasor
