#include "compare/trial.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>

#include "compare/machine.h"
#include "files/atomic_file.h"
#include "interrupt.h"
#include "phasor/core/check.h"
#include "phasor/core/folder_lock.h"
#include "phasor/models/transformer_json.h"
#include "phasor/training/checkpoint.h"
#include "phasor/training/evaluation.h"
#include "phasor/training/trainer.h"
#include "phasor/version.h"
#include "progress.h"
#include "table.h"

namespace phasor::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kEvaluations = 10;  // of a training
constexpr std::int64_t kSaves = 5;

TrainingState first_state(const TrialSettings& settings, const Trial& trial) {
  constexpr std::int64_t kWarmupShare = 10;
  constexpr std::int64_t kValidationRows = 64;
  TrainingState state;
  state.settings = {
      .batch = settings.batch,
      .length = settings.length,
      .schedule = {.peak = trial.learning_rate, .warmup_steps = settings.steps / kWarmupShare, .steps = settings.steps},
      .evaluate_every = std::max<std::int64_t>(1, settings.steps / kEvaluations),
      .evaluation_rows = kValidationRows,
      .seed = static_cast<std::uint64_t>(trial.seed),
  };
  state.data = settings.data;
  state.data->seed = static_cast<std::uint64_t>(trial.seed);
  return state;
}

TransformerConfig model_config(const TrialSettings& settings, const Trial& trial, const Dataset& data) {
  return with_encoding(settings.size.config(data.vocabulary(), settings.length), trial.encoding);
}

Transformer new_model(const TrialSettings& settings, const Trial& trial, const Dataset& data) {
  return {model_config(settings, trial, data), static_cast<std::uint64_t>(trial.seed)};
}

// The flag of a setting.
std::string flag_of(std::string_view path) {
  if (path == "schedule.peak") return "--learning-rates";
  return "--" + std::string(path.substr(path.rfind('.') + 1));
}

// A curve of at most so many points, each the mean of its steps.
std::vector<report::LossPoint> curve(const std::vector<LossPoint>& losses) {
  constexpr std::size_t kPoints = 100;
  const std::size_t together = (losses.size() + kPoints - 1) / kPoints;
  std::vector<report::LossPoint> points;
  for (std::size_t first = 0; first < losses.size(); first += together) {
    const std::size_t end = std::min(first + together, losses.size());
    report::LossPoint point{.step = losses[end - 1].step};
    for (std::size_t i = first; i < end; i++) {
      point.train_loss += losses[i].train_loss / static_cast<double>(end - first);
      if (losses[i].validation_loss) point.validation_loss = losses[i].validation_loss;
    }
    points.push_back(point);
  }
  return points;
}

std::optional<std::string> why_not(const TransformerConfig& config, std::int64_t length) {
  const std::optional<std::int64_t> most = config.longest();
  if (!most || length <= *most) return std::nullopt;
  return "its table ends at position " + std::to_string(*most - 1);
}

// By position, neighbours together where there are many.
report::ScoresByPosition by_position(const Evaluation& found, std::int64_t length, bool accuracy) {
  constexpr std::size_t kPoints = 128;
  const auto& all = found.by_position;
  const std::size_t together = (all.size() + kPoints - 1) / kPoints;
  report::ScoresByPosition result{.length = length};
  for (std::size_t first = 0; first < all.size(); first += together) {
    const std::size_t end = std::min(first + together, all.size());
    double sum = 0.0, counted = 0.0;
    for (std::size_t i = first; i < end; i++) {
      sum += (accuracy ? all[i].accuracy : all[i].loss) * static_cast<double>(all[i].counted);
      counted += static_cast<double>(all[i].counted);
    }
    result.scores.push_back({all[(first + end - 1) / 2].position, sum / counted});
  }
  return result;
}

// A scaling fits the length: its factor is length by length of training.
void set_encoding_at(std::int64_t length, const EncodingConfig& trained, const ModelEncoding& encoding,
                     const TrialSettings& settings, Transformer& model) {
  if (!encoding.scaling) return;
  const double factor = std::max(1.0, static_cast<double>(length) / static_cast<double>(settings.length));
  model.set_encoding(scaled_rope(trained, *encoding.scaling, factor, settings.length));
}

// Scores at every length.
void score(Transformer& model, const Dataset& data, const TrialSettings& settings, const ModelEncoding& encoding,
           report::EncodingResult& result) {
  constexpr std::int64_t kTokens = 1 << 16;  // scored at each length
  constexpr std::int64_t kFewestRows = 32;
  const EncodingConfig trained = model.config().encoding;
  const bool accuracy = data.exact_match();
  Workspace workspace;
  for (const std::int64_t length : settings.eval_lengths) {
    report::LengthScore at{.length = length, .not_possible = why_not(model.config(), length)};
    if (!at.not_possible) {
      set_encoding_at(length, trained, encoding, settings, model);
      const Evaluation found = evaluate(model, data,
                                        {.length = length,
                                         .rows = std::max(kFewestRows, kTokens / length),
                                         .batch = std::max<std::int64_t>(1, settings.batch * settings.length / length)},
                                        workspace);
      if (std::isfinite(found.loss)) {
        at.by_seed.push_back(accuracy ? found.token_accuracy : found.loss);
        result.by_position = by_position(found, length, accuracy);
      } else {
        at.not_possible = "its loss is not a finite number";
      }
    }
    result.scores.push_back(at);
  }
  model.set_encoding(trained);
}

// The tokens whose attention is shown: the beginning of the first validation row.
Batch sample(const Dataset& data, std::int64_t length) {
  constexpr std::int64_t kMost = 48;
  Batch whole(1, length), shown(1, std::min(kMost, length));
  data.fill(0, Split::validation, whole);
  std::copy_n(whole.tokens.begin(), shown.tokens.size(), shown.tokens.begin());
  return shown;
}

// A byte of a text; what has no shape of its own by the usual signs.
std::string byte_text(std::int32_t byte) {
  if (byte == ' ') return "␣";
  if (byte == '\n') return "↵";
  return byte > ' ' && byte <= '~' ? std::string(1, static_cast<char>(byte)) : "?";
}

std::vector<std::string> sample_text(const Batch& batch, const TrialSettings& settings) {
  std::vector<std::string> text;
  for (const std::int32_t token : batch.tokens) {
    if (settings.data.text) {
      text.push_back(byte_text(token));
    } else {
      text.push_back(token == settings.data.symbols ? "|" : std::to_string(token));
    }
  }
  return text;
}

void attention_maps(const Transformer& model, const Batch& batch, report::EncodingResult& result) {
  const TransformerConfig& config = model.config();
  const std::int64_t length = batch.tokens.shape()[1];
  Workspace workspace;
  Tensor<float, 3> logits({1, length, config.vocab_size});
  Tensor<float, 4> weights({1, config.num_attention_heads, length, length});
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; layer++) {
    model.forward(batch.tokens.view(), logits.view(), nullptr, workspace,
                  {.weights_layer = layer, .weights = weights.view()});
    for (std::int64_t head = 0; head < config.num_attention_heads; head++) {
      const float* of_head = weights.data() + head * length * length;
      result.attention.push_back({.layer = layer,
                                  .head = head,
                                  .queries = length,
                                  .keys = length,
                                  .weights = {of_head, of_head + length * length}});
    }
  }
}

std::string without_indent(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(',') + 1 - begin);
}

// Trains to the end, or throws Interrupted; the reason when it diverged.
std::optional<std::string> train_to_end(Trainer& trainer, const std::string& title, const fs::path& folder) {
  Progress progress(title, trainer.tokens_per_step(), trainer.state().steps_done);
  const std::int64_t steps = trainer.state().settings.schedule.steps;
  try {
    const TrainEnd end = train(trainer, {.progress = [&](const TrainingState& state) { progress.show(state); },
                                         .stop_requested = interrupted,
                                         .folder = folder,
                                         .save_every = std::max<std::int64_t>(1, steps / kSaves)});
    if (end == TrainEnd::stopped) throw Interrupted{};
  } catch (const TrainingDiverged&) {
    return "training diverged after step " + count(trainer.state().steps_done);
  }
  return std::nullopt;
}

// Of the steps just done, or where none was left to do, of some more.
double tokens_per_second(const Trainer& trainer, std::int64_t steps, const TrialSettings& settings,
                         const Trial& trial) {
  const double seconds =
      steps > 0 ? trainer.step_seconds() / static_cast<double>(steps) : seconds_per_step(settings, trial);
  return static_cast<double>(trainer.tokens_per_step()) / std::max(seconds, 1e-9);
}

// A model that diverged says nothing about its encoding, so it has no score.
void refuse_scores(const std::string& reason, const TrialSettings& settings, report::EncodingResult& result) {
  for (const std::int64_t length : settings.eval_lengths)
    result.scores.push_back({.length = length, .not_possible = reason});
}

// Both are JSON with a setting on each line.
void check_same(const fs::path& folder, const std::string& found, const std::string& wanted) {
  std::istringstream found_lines(found), wanted_lines(wanted);
  std::string has, expected;
  while (std::getline(wanted_lines, expected) && std::getline(found_lines, has))
    PHASOR_CHECK(has == expected, "compare", folder.string(), ": a training with ", without_indent(has), ", expected ",
                 without_indent(expected), " as in this comparison, or another --out");
}

// The training in `folder`, if there is one.
std::optional<Checkpoint> training_in(const fs::path& folder, const TrainingState& wanted,
                                      const TransformerConfig& model) {
  if (!fs::exists(readable_folder(folder) / "training.json")) return std::nullopt;
  Checkpoint checkpoint(folder);
  TrainingState found = checkpoint.training_state();
  found.steps_done = 0;
  found.losses.clear();
  check_same(folder, training_to_json(found), training_to_json(wanted));
  check_same(folder, transformer_to_json(checkpoint.config()), transformer_to_json(model));
  return checkpoint;
}

}  // namespace

report::Settings trial_settings(const TrialSettings& settings, const Trial& trial) {
  report::Settings result;
  result.task = data_text(settings.data) + (settings.size.bidirectional ? ", bidirectional" : "");
  result.model = settings.model;
  result.length = settings.length;
  result.eval_lengths = settings.eval_lengths;
  result.seeds = {trial.seed};
  result.batch = settings.batch;
  result.steps = settings.steps;
  result.learning_rates = {trial.learning_rate};
  result.version = PHASOR_VERSION;
  return result;
}

std::string Trial::name() const {
  return encoding.name + "-seed" + std::to_string(seed) + "-rate" + number(learning_rate);
}

std::vector<ModelEncoding> Trial::scored() const {
  std::vector<ModelEncoding> all{encoding};
  all.insert(all.end(), scalings.begin(), scalings.end());
  return all;
}

void check_trial(const TrialSettings& settings, const Trial& trial) {
  const TrainingState state = first_state(settings, trial);
  check_settings("compare", state.settings, flag_of);
  const std::unique_ptr<Dataset> data = make_dataset(*state.data);
  Transformer model = new_model(settings, trial, *data);
  const EncodingConfig trained = model.config().encoding;
  const Trainer trainer(model, *data, state);
  Batch row(1, settings.length);
  data->fill(0, Split::train, row);
  Workspace workspace;
  for (const ModelEncoding& encoding : trial.scored())
    for (const std::int64_t length : settings.eval_lengths) {
      if (why_not(model.config(), length)) continue;
      set_encoding_at(length, trained, encoding, settings, model);
      evaluate(model, *data, {.length = length, .rows = 1, .batch = 1}, workspace);
    }
}

double seconds_per_step(const TrialSettings& settings, const Trial& trial) {
  constexpr int kMeasured = 5;
  constexpr double kHarmlessRate = 1e-6;  // the speed does not depend on it, and a large one may diverge
  TrialSettings few = settings;
  few.steps = kMeasured + 1;
  TrainingState state = first_state(few, trial);
  state.settings.evaluate_every = 0;
  state.settings.schedule.peak = kHarmlessRate;
  const std::unique_ptr<Dataset> data = make_dataset(*state.data);
  Transformer model = new_model(few, trial, *data);
  Trainer trainer(model, *data, state);
  trainer.step();  // the first one allocates
  const double first = trainer.step_seconds();
  for (int i = 0; i < kMeasured; i++) trainer.step();
  return (trainer.step_seconds() - first) / kMeasured;
}

report::Comparison run_trial(const TrialSettings& settings, const Trial& trial, const std::string& title,
                             const fs::path& folder) {
  const FolderLock lock = FolderLock::beside(folder);
  reset_peak_memory();
  const TrainingState state = first_state(settings, trial);
  const std::unique_ptr<Dataset> data = make_dataset(*state.data);
  const TransformerConfig config = model_config(settings, trial, *data);
  const std::optional<Checkpoint> resumed = training_in(folder, state, config);
  Transformer model = resumed ? resumed->model() : new_model(settings, trial, *data);
  const auto trainer =
      resumed ? std::make_unique<Trainer>(model, *data, *resumed) : std::make_unique<Trainer>(model, *data, state);
  const std::int64_t steps_before = trainer->state().steps_done;
  const std::optional<std::string> diverged = train_to_end(*trainer, title, folder);

  const Batch shown = sample(*data, settings.length);
  report::Comparison comparison{.settings = trial_settings(settings, trial), .sample = sample_text(shown, settings)};
  report::EncodingResult trained{
      .name = trial.encoding.name,
      .attention_score = trial.encoding.score == Score::w2 ? "w2" : "dot",
      .parameters = model.parameter_count(),
      .tokens_per_second = tokens_per_second(*trainer, trainer->state().steps_done - steps_before, settings, trial),
      .peak_memory_bytes = peak_memory()};
  for (const ModelEncoding& encoding : trial.scored()) {
    report::EncodingResult result = trained;
    result.name = encoding.name;
    if (encoding.scaling) {
      result.trained_as = encoding.trained_as();
    } else {
      result.runs = {{trial.seed, trial.learning_rate, curve(trainer->state().losses), diverged}};
    }
    if (diverged) {
      refuse_scores(*diverged, settings, result);
    } else {
      score(model, *data, settings, encoding, result);
      attention_maps(model, shown, result);
    }
    comparison.encodings.push_back(std::move(result));
  }
  return comparison;
}

}  // namespace phasor::tool
