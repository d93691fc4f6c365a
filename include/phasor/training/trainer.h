// Training: batches in order, gradients, AdamW by a schedule, evaluation every so often.
//
//   Trainer trainer(model, *dataset, TrainingState{.settings = {.length = 64, .schedule = {.steps = 500}}});
//   train(trainer, {.progress = show, .stop_requested = interrupted, .folder = "run", .save_every = 100});
//
// and resumed:
//
//   const Checkpoint checkpoint("run");
//   Transformer model = checkpoint.model();
//   Trainer trainer(model, *dataset, checkpoint);
//
// Where another process may save in the same folder, hold its FolderLock (core/folder_lock.h) while training.
// Everything a step depends on is in the checkpoint, so training resumed from one gives the same bits as training that
// was never interrupted. Nothing is printed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "phasor/models/transformer.h"
#include "phasor/training/checkpoint.h"
#include "phasor/training/dataset.h"
#include "phasor/training/optimizer.h"
#include "phasor/training/settings.h"

namespace phasor {

// A loss or a gradient is not finite: no later step could mend it. Its text says what, at which step, and what may
// help.
struct TrainingDiverged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Trainer {
 public:
  // A new training. Model and dataset outlive the trainer; neither is moved.
  Trainer(Transformer& model, const Dataset& dataset, TrainingState state);
  // A training resumed; the model is that of the same checkpoint.
  Trainer(Transformer& model, const Dataset& dataset, const Checkpoint& checkpoint);

  const TrainingState& state() const { return state_; }
  bool done() const { return state_.steps_done == state_.settings.schedule.steps; }
  std::int64_t tokens_per_step() const;

  // One step of the optimizer; what it found is the last of state().losses. Throws TrainingDiverged.
  void step();
  // Of the steps so far, without validation and saving.
  double step_seconds() const { return step_seconds_; }
  void save(const std::filesystem::path& folder) const;

 private:
  double gradients();  // of a step, into the model; the mean loss
  double learn();      // gradients and the optimizer's step; the mean loss before it
  double validation_loss();

  Transformer& model_;
  const Dataset& dataset_;
  TrainingState state_;
  AdamW optimizer_;
  Batch batch_;
  Transformer::Saved saved_;
  Workspace workspace_;
  double step_seconds_ = 0.0;
};

struct TrainOptions {
  std::function<void(const TrainingState&)> progress = {};  // hears of every step
  std::function<bool()> stop_requested = {};                // asked after every step
  std::filesystem::path folder = {};                        // where to save: at the end, when stopped, and
  std::int64_t save_every = 0;                              // after so many steps; 0: never in between
};

enum class TrainEnd { finished, stopped };

// When the training diverges, the folder keeps what was saved last.
TrainEnd train(Trainer& trainer, const TrainOptions& options = {});

}  // namespace phasor
