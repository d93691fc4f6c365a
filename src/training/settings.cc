#include "phasor/training/settings.h"

#include <cmath>
#include <utility>

#include "check_settings.h"
#include "json/fields.h"

namespace phasor {

static void fields(auto& archive, Is<TextSize> auto& of) {
  archive("bytes", of.bytes);
  archive("hash", of.hash);
}

static void fields(auto& archive, Is<DatasetConfig> auto& of) {
  archive("task", of.task);
  archive("text", of.text);
  archive("text_size", of.text_size);
  archive("symbols", of.symbols);
  archive("distance", of.distance);
  archive("validation_fraction", of.validation_fraction);
  archive("split", of.split);
  archive("seed", of.seed);
}

static void fields(auto& archive, Is<Schedule> auto& of) {
  archive("peak", of.peak);
  archive("warmup_steps", of.warmup_steps);
  archive("steps", of.steps);
  archive("final_fraction", of.final_fraction);
}

static void fields(auto& archive, Is<AdamWConfig> auto& of) {
  archive("beta1", of.beta1);
  archive("beta2", of.beta2);
  archive("eps", of.eps);
  archive("weight_decay", of.weight_decay);
}

static void fields(auto& archive, Is<TrainSettings> auto& of) {
  archive("batch", of.batch);
  archive("accumulation", of.accumulation);
  archive("length", of.length);
  archive("schedule", of.schedule);
  archive("adamw", of.adamw);
  archive("clip_norm", of.clip_norm);
  archive("evaluate_every", of.evaluate_every);
  archive("evaluation_rows", of.evaluation_rows);
  archive("seed", of.seed);
}

static void fields(auto& archive, Is<LossPoint> auto& of) {
  archive("step", of.step);
  archive("train_loss", of.train_loss);
  archive("validation_loss", of.validation_loss);
}

static void fields(auto& archive, Is<TrainingState> auto& of) {
  archive("settings", of.settings);
  archive("data", of.data);
  archive("steps_done", of.steps_done);
  archive("losses", of.losses);
}

void check_settings(const char* function, const TrainSettings& settings, const SettingName& name) {
  constexpr std::int64_t kMost = 1'000'000;
  const auto check = [&](const char* path, std::int64_t value, std::int64_t least, std::int64_t most) {
    PHASOR_CHECK(value >= least && value <= most, function, name(path), ": ", value, ", expected ", least, " to ",
                 most);
  };
  check("batch", settings.batch, 1, INT32_MAX);
  check("accumulation", settings.accumulation, 1, kMost);
  check("length", settings.length, 1, INT32_MAX);
  PHASOR_CHECK(settings.batch <= INT32_MAX / settings.length, function, name("batch"), ", ", name("length"), ": ",
               settings.batch, " rows of ", settings.length, " tokens, expected at most ", INT32_MAX,
               " tokens in a pass");
  detail::check_schedule(function, settings.schedule, name);
  detail::check_adamw(function, settings.adamw, name);
  PHASOR_CHECK(settings.clip_norm >= 0.0 && std::isfinite(settings.clip_norm), function, name("clip_norm"), ": ",
               settings.clip_norm, ", expected 0 (no limit) or more, and finite");
  check("evaluate_every", settings.evaluate_every, 0, INT64_MAX);
  check("evaluation_rows", settings.evaluation_rows, 1, INT32_MAX);
}

std::string training_to_json(const TrainingState& state) { return fields_to_json(state).dump(1) + "\n"; }

TrainingState training_from_json(std::string_view json, std::string_view source) {
  constexpr const char* kName = "training_from_json";
  auto state = fields_from_json<TrainingState>(parse_json_object(json, kName, source), kName, std::string(source));
  check_settings(kName, state.settings,
                 [&](std::string_view path) { return std::string(source) + ": settings." + std::string(path); });
  PHASOR_CHECK(state.steps_done >= 0 && state.steps_done <= state.settings.schedule.steps, kName, source,
               ": steps_done ", state.steps_done, ", expected 0 to ", state.settings.schedule.steps);
  PHASOR_CHECK(static_cast<std::int64_t>(state.losses.size()) == state.steps_done, kName, source, ": ",
               state.losses.size(), " losses, expected one for each of steps_done ", state.steps_done);
  return state;
}

std::unique_ptr<Dataset> make_dataset(const DatasetConfig& config) {
  PHASOR_CHECK(config.task.has_value() != config.text.has_value(), "make_dataset",
               "task, text: ", config.task ? "both" : "none", " given, expected one of them");
  PHASOR_CHECK(config.task || config.split == DatasetConfig{}.split, "make_dataset",
               "split: ", config.split.value_or("the end of the text, as in earlier versions"), ", expected ",
               *DatasetConfig{}.split, ": train anew");
  if (config.text && config.text_size) {
    const TextSize found = text_summary(*config.text).size;
    PHASOR_CHECK(found == *config.text_size, "make_dataset", "text: ", *config.text, " of ", found.bytes, " bytes, ",
                 found.bytes == config.text_size->bytes ? "with other contents, " : "", "expected the text of ",
                 config.text_size->bytes, " bytes that the training began with");
  }
  if (config.text)
    return text_dataset(*config.text, {.validation_fraction = config.validation_fraction, .seed = config.seed});
  return task_dataset(*config.task, {.symbols = config.symbols, .distance = config.distance, .seed = config.seed});
}

}  // namespace phasor
