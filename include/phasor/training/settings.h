// How a model is trained, and how far it has come: what a checkpoint keeps beside weights and moments.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/training/dataset.h"
#include "phasor/training/optimizer.h"
#include "phasor/training/schedule.h"

namespace phasor {

// What a dataset is made from, so that it can be made again: a task, or a text.
struct DatasetConfig {
  std::optional<std::string> task = {};
  std::optional<std::string> text = {};    // a file or folder
  std::optional<TextSize> text_size = {};  // what it must be, where that is known
  std::int64_t symbols = 32;               // of a task
  std::int64_t distance = 4;
  double validation_fraction = 0.1;  // of a text
  // How a text is split: the ends of its parts (training/dataset.h). Files of earlier versions do not say it, and meant
  // the end of the whole text: such a training is refused, since its validation data would be others.
  std::optional<std::string> split = "ends of parts";
  std::uint64_t seed = 0;
};

std::unique_ptr<Dataset> make_dataset(const DatasetConfig& config);

struct TrainSettings {
  std::int64_t batch = 16;        // rows of a pass
  std::int64_t accumulation = 1;  // passes of a step; their mean gradients are averaged
  std::int64_t length = 64;       // tokens of a row
  Schedule schedule = {};         // also the number of steps
  AdamWConfig adamw = {};
  double clip_norm = 1.0;           // of all gradients together; 0: no limit
  std::int64_t evaluate_every = 0;  // steps; 0: never
  std::int64_t evaluation_rows = 64;
  std::uint64_t seed = 0;  // of dropout
};

// How an error calls a setting, given its path in training.json: "schedule.steps" is "--steps" on a command line.
using SettingName = std::function<std::string(std::string_view path)>;
// Settings that no training can have are refused: by the trainer, when a file is read, and on the command line.
void check_settings(const char* function, const TrainSettings& settings, const SettingName& name);

struct LossPoint {
  std::int64_t step = 0;  // done when it was measured
  double train_loss = 0.0;
  std::optional<double> validation_loss = {};
};

struct TrainingState {
  TrainSettings settings = {};
  std::optional<DatasetConfig> data = {};  // where it is known
  std::int64_t steps_done = 0;             // the next batch is this times accumulation
  std::vector<LossPoint> losses = {};      // one a step
};

std::string training_to_json(const TrainingState& state);
TrainingState training_from_json(std::string_view json, std::string_view source);

}  // namespace phasor
