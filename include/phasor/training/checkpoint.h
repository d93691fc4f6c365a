// A model in a folder, replaced all at once (core/atomic_file.h):
//
//   config.json            the model's settings (models/decoder_json.h)
//   model.safetensors      its weights, by name
//   training.json          how far a training has come (training/settings.h)
//   training.safetensors   the optimizer's moments: mean.NAME and square.NAME
//
// The last two are there when training can be resumed. Errors name the file and the fault.
#pragma once

#include <filesystem>

#include "phasor/models/decoder.h"
#include "phasor/training/optimizer.h"
#include "phasor/training/settings.h"

namespace phasor {

void save_model(const std::filesystem::path& folder, Decoder& model);
Decoder load_model(const std::filesystem::path& folder);

void save_training(const std::filesystem::path& folder, Decoder& model, const TrainingState& state,
                   const AdamW& optimizer);
TrainingState load_training_state(const std::filesystem::path& folder);
// The moments, into an optimizer of the folder's model.
void restore_optimizer(const std::filesystem::path& folder, const TrainingState& state, AdamW& optimizer);

}  // namespace phasor
