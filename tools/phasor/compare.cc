// phasor compare: the same small model trained with each encoding, scored at its training length and beyond.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "commands.h"
#include "compare/comparison_folder.h"
#include "compare/machine.h"
#include "compare/trial.h"
#include "flags.h"
#include "interrupt.h"
#include "phasor/core/check.h"
#include "phasor/version.h"
#include "table.h"

namespace phasor::tool {
namespace {

struct Options {
  TrialSettings trial{.length = 32, .batch = 32};
  std::vector<std::string> encodings{"none",      "learned", "sinusoidal", "rope",    "rope+ntk",
                                     "rope+yarn", "alibi",   "t5",         "w2-rope", "w2-alibi"};
  std::int64_t seeds = 1;
  std::vector<double> learning_rates{3e-3};
  std::optional<std::int64_t> steps;
  std::optional<double> budget_seconds;
  std::string out = "comparison";
  std::string command;
};

// With these defaults all encodings but none learn the task at the length of training, in a few seconds each.
constexpr std::int64_t kDefaultSteps = 1000;
constexpr std::int64_t kDefaultSymbols = 16;
constexpr const char* kDefaultTask = "induction";

// `text` is what a value is known by: rates that the names of trials cannot tell apart are the same.
void check_once(const char* option, const auto& values, const auto& text) {
  std::set<std::string> before;
  for (const auto& value : values)
    PHASOR_CHECK(before.insert(text(value)).second, "compare", option, ": ", text(value), " twice, expected it once");
}

void check(const Options& options) {
  check_once("--encodings", options.encodings, [](const std::string& name) { return name; });
  check_once("--eval-lengths", options.trial.eval_lengths, [](std::int64_t each) { return std::to_string(each); });
  check_once("--learning-rates", options.learning_rates, [](double rate) { return number(rate); });
}

// Before anything is written or trained: what cannot be trained or scored, of each encoding.
void check_trials(const Options& options, const std::vector<Trial>& all) {
  TrialSettings settings = options.trial;
  settings.steps = options.steps.value_or(kDefaultSteps);
  std::set<std::string> checked;
  for (const Trial& trial : all)
    if (checked.insert(trial.encoding.name).second) check_trial(settings, trial);
}

// One trial for each thing to train, seed and rate. Scalings alone train what they scale.
std::vector<Trial> trials(const Options& options) {
  std::vector<Trial> kinds;
  for (const std::string& name : options.encodings) {
    const ModelEncoding encoding = parse_model_encoding("--encodings", name);
    const std::string trained = encoding.trained_as();
    auto kind = std::ranges::find(kinds, trained, [](const Trial& each) { return each.encoding.name; });
    if (kind == kinds.end())
      kind = kinds.insert(kinds.end(), {.encoding = parse_model_encoding("--encodings", trained)});
    if (encoding.scaling) kind->scalings.push_back(encoding);
  }
  std::vector<Trial> all;
  for (std::int64_t seed = 1; seed <= options.seeds; seed++)
    for (const double rate : options.learning_rates)
      for (Trial trial : kinds) {
        trial.seed = seed;
        trial.learning_rate = rate;
        all.push_back(trial);
      }
  return all;
}

// Of guessing among the symbols that can be answers.
double chance(const DatasetConfig& data) {
  const TaskConfig config{.symbols = data.symbols, .distance = data.distance};
  return 1.0 / static_cast<double>(task(*data.task).answers(config));
}

report::ModelSize model_size(const TransformerConfig& config) {
  return {.layers = config.num_hidden_layers,
          .width = config.hidden_size,
          .heads = config.num_attention_heads,
          .kv_heads = config.num_key_value_heads,
          .ffn = config.intermediate_size,
          .vocabulary = config.vocab_size};
}

report::Settings wanted_settings(const Options& options) {
  const std::unique_ptr<Dataset> data = make_dataset(options.trial.data);
  const TransformerConfig model = options.trial.size.config(data->vocabulary(), options.trial.length);
  report::Settings settings;
  settings.task = data_text(options.trial.data) + (options.trial.size.bidirectional ? ", bidirectional" : "");
  settings.metric = data->exact_match() ? "accuracy" : "loss";
  settings.higher_is_better = data->exact_match();
  if (data->exact_match()) settings.chance = chance(options.trial.data);
  settings.model = model_size(model);
  settings.length = options.trial.length;
  settings.eval_lengths = options.trial.eval_lengths;
  for (std::int64_t seed = 1; seed <= options.seeds; seed++) settings.seeds.push_back(seed);
  settings.batch = options.trial.batch;
  settings.budget_seconds = options.budget_seconds;
  settings.learning_rates = options.learning_rates;
  settings.command = options.command;
  settings.machine = machine_text();
  settings.date = today_text();
  settings.version = PHASOR_VERSION;
  return settings;
}

// As many steps, the same for all, as the budget has time for; a part of it is kept for scoring.
std::int64_t steps_in_budget(const Options& options, const std::vector<Trial>& all) {
  constexpr double kForTraining = 0.8;
  std::fprintf(stderr, "measuring the speed of each encoding\n");
  double seconds = 0.0;  // of one step of every trial
  std::set<std::string> measured;
  for (const Trial& trial : all)
    if (measured.insert(trial.encoding.name).second) seconds += seconds_per_step(options.trial, trial);
  seconds *= static_cast<double>(options.seeds) * static_cast<double>(options.learning_rates.size());
  return std::max<std::int64_t>(1, std::llround(kForTraining * *options.budget_seconds / seconds));
}

report::Settings settled(const Options& options, const ComparisonFolder& folder, const std::vector<Trial>& all) {
  report::Settings wanted = wanted_settings(options);
  if (!options.budget_seconds) {
    wanted.steps = options.steps.value_or(kDefaultSteps);
  } else if (!folder.begun()) {
    wanted.steps = steps_in_budget(options, all);
  }
  return folder.settle(wanted);
}

void compare(Options options) {
  if (options.trial.eval_lengths.empty())
    for (const std::int64_t times : {1, 2, 4, 8}) options.trial.eval_lengths.push_back(times * options.trial.length);
  check(options);
  note_text(options.trial.data);
  const std::vector<Trial> all = trials(options);
  check_trials(options, all);
  const ComparisonFolder folder(options.out);
  const report::Settings settings = settled(options, folder, all);
  options.trial.steps = settings.steps.value_or(kDefaultSteps);
  options.trial.model = settings.model;
  std::fprintf(stderr, "%s, length %s: %zu trainings of %s steps\n", settings.task.c_str(),
               count(settings.length).c_str(), all.size(), count(options.trial.steps).c_str());
  watch_for_interrupt();
  std::vector<report::Comparison> found;
  for (const Trial& trial : all) {
    const std::string title =
        "[" + std::to_string(found.size() + 1) + "/" + std::to_string(all.size()) + "] " + trial.name();
    std::optional<report::Comparison> result = folder.trial(trial.name(), trial_settings(options.trial, trial));
    const bool whole = result && std::ranges::all_of(trial.scalings, [&](const ModelEncoding& scaling) {
                         return std::ranges::count(result->encodings, scaling.name, &report::EncodingResult::name) == 1;
                       });
    if (!whole) {
      result = run_trial(options.trial, trial, title, folder.trial_folder(trial.name()));
      folder.add_trial(trial.name(), *result);
    }
    found.push_back(std::move(*result));
    if (interrupted()) throw Interrupted{};
  }
  const report::Comparison merged = merge_trials(settings, options.encodings, found);
  const std::string page = folder.write_report(merged);
  report::ranking_table(merged).print();
  for (const std::string& note : report::ranking_notes(merged)) std::printf("%s\n", printable(note).c_str());
  std::printf("\n%s\n", page.c_str());
}

// As a word of a shell.
std::string shell_word(const std::string& text) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// As it could be typed, for the report.
std::string command_text(const CLI::App& command) {
  std::string text = "phasor compare";
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->check_name("--out")) continue;
    text += " " + option->get_name();
    std::string values;
    for (const std::string& value : option->results()) values += (values.empty() ? "" : ",") + value;
    if (option->get_expected_max() > 0) text += " " + shell_word(values);
  }
  return text;
}

}  // namespace

void add_compare(CLI::App& app) {
  auto* command = app.add_subcommand("compare", "Train the same model with each encoding and compare the scores");
  auto options = std::make_shared<Options>();
  constexpr std::int64_t kMostSeeds = 10'000;
  options->trial.data.symbols = kDefaultSymbols;
  add_data_options(*command, options->trial.data);
  command->add_option("--encodings", options->encodings, "Encodings to compare: [w2-]ENCODING[+SCALING], ...")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--length", options->trial.length, "Sequence length in training, in tokens")
      ->capture_default_str()
      ->check(whole_number());
  command
      ->add_option("--eval-lengths", options->trial.eval_lengths,
                   "Sequence lengths to evaluate (default: 1, 2, 4, 8 times --length)")
      ->delimiter(',')
      ->check(whole_number(1, INT32_MAX));
  command->add_option("--seeds", options->seeds, "Number of trainings of each encoding, with seeds 1, 2, ...")
      ->capture_default_str()
      ->check(whole_number(1, kMostSeeds));
  command->add_option("--learning-rates", options->learning_rates, "Learning rates tried for each; the best counts")
      ->delimiter(',')
      ->capture_default_str()
      ->check(real_number());
  auto* steps = command
                    ->add_option("--steps", options->steps,
                                 "Optimizer steps of each training (default: " + std::to_string(kDefaultSteps) + ")")
                    ->check(whole_number());
  command->add_option("--budget-seconds", options->budget_seconds, "Time for all trainings, instead of --steps")
      ->excludes(steps)
      ->check(real_number("more than 0 and finite", [](double s) { return s > 0 && std::isfinite(s); }));
  command->add_option("--batch", options->trial.batch, "Batch size, in sequences")
      ->capture_default_str()
      ->check(whole_number());
  add_size_options(*command, options->trial.size);
  command->add_option("--out", options->out, "Folder of results; an interrupted comparison there is continued")
      ->capture_default_str();
  command->callback([options, command] {
    options->command = command_text(*command);
    if (!options->trial.data.task && !options->trial.data.text) options->trial.data.task = kDefaultTask;
    check_data_options(*command, options->trial.data.task);
    try {
      compare(*options);
    } catch (const Interrupted&) {
      std::fprintf(stderr, "\nstopped and saved; to continue: the same command with --out %s\n", options->out.c_str());
      throw;
    }
  });
}

}  // namespace phasor::tool
