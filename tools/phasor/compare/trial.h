// One training of a comparison, and the scores of the trained model, also with scalings at inference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model_options.h"
#include "report/comparison.h"

namespace phasor::tool {

struct Trial {
  ModelEncoding encoding;                    // what is trained
  std::vector<ModelEncoding> scalings = {};  // what is scored with the same weights beside it
  std::int64_t seed = 1;                     // of data and weights
  double learning_rate = 0.0;

  std::vector<ModelEncoding> scored() const;  // both
  std::string name() const;                   // of its files: "rope-seed1-rate0.003"
};

// What all trials share.
struct TrialSettings {
  DatasetConfig data = {};
  SizeOptions size = {};
  std::int64_t length = 0, batch = 0, steps = 0;
  std::vector<std::int64_t> eval_lengths = {};
  report::ModelSize model = {};  // what size and data give
};

// What a trial's results say about how they were found.
report::Settings trial_settings(const TrialSettings& settings, const Trial& trial);

// Throws what its training or scoring would throw, hours later: it makes the model and scores a row of each length.
void check_trial(const TrialSettings& settings, const Trial& trial);

// Seconds that one step takes, measured by a few.
double seconds_per_step(const TrialSettings& settings, const Trial& trial);

// Trains, or continues the training in `folder`, which must have the same settings, and scores. The results have one
// seed and the encodings of the trial; a training that diverged has no scores, but the reason. Ctrl-C saves and throws
// Interrupted.
report::Comparison run_trial(const TrialSettings& settings, const Trial& trial, const std::string& title,
                             const std::filesystem::path& folder);

}  // namespace phasor::tool
