// phasor train: a small decoder on a task or a text, into a folder.
#include <cstdio>
#include <filesystem>

#include "commands.h"
#include "interrupt.h"
#include "model_options.h"
#include "phasor/core/atomic_file.h"
#include "phasor/core/check.h"
#include "phasor/training/checkpoint.h"
#include "phasor/training/trainer.h"
#include "progress.h"
#include "table.h"

namespace phasor::tool {
namespace {

struct Options {
  DatasetConfig data;
  SizeOptions size;
  std::string encoding = "rope";
  std::string score = "dot";
  TrainSettings settings{.schedule = {.peak = 3e-3, .steps = 500}};
  std::optional<std::int64_t> warmup;
  double dropout = 0.0;
  std::uint64_t seed = 1;
  std::string out;
  bool resume = false;
  std::int64_t save_every = 100;
};

// Settings of a training do not change while it runs: only the folder may be named again.
void check_resume_alone(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    PHASOR_CHECK(option->count() == 0 || option->check_name("--resume") || option->check_name("--out"), "train",
                 option->get_name(), ": given with --resume, expected only --out: the settings are the folder's");
}

// Saving replaces the folder's files: a model that is not of this training must not be lost.
void check_free(const std::string& out) {
  const std::filesystem::path folder = readable_folder(out);
  PHASOR_CHECK(!std::filesystem::exists(folder / "training.json"), "train", "--out: ", out,
               " has a training in it, expected --resume, or another folder");
  for (const char* file : {"config.json", "model.safetensors", "model.safetensors.index.json"})
    PHASOR_CHECK(!std::filesystem::exists(folder / file), "train", "--out: ", out, " has a model in it (", file,
                 "), expected a folder without one");
}

// Begins a save and drops it: what is wrong with the folder shows before hours of work, not after them.
void check_writable(const std::string& out) { const AtomicFolder attempt(out); }

int run(Trainer& trainer, const Options& options) {
  watch_for_interrupt();
  Progress progress("train", trainer.tokens_per_step(), trainer.state().steps_done);
  const TrainEnd end = train(trainer, {.progress = [&](const TrainingState& state) { progress.show(state); },
                                       .stop_requested = interrupted,
                                       .folder = options.out,
                                       .save_every = options.save_every});
  if (end == TrainEnd::stopped) {
    std::fprintf(stderr, "\nstopped and saved; to go on: phasor train --resume --out %s\n", options.out.c_str());
    throw Interrupted{};
  }
  return 0;
}

void finish(const TrainingState& state, const std::string& out) {
  const LossPoint& last = state.losses.back();
  std::printf("%s: %s steps, training loss %s", out.c_str(), count(last.step).c_str(),
              number(last.train_loss, 4).c_str());
  if (last.validation_loss) std::printf(", validation loss %s", number(*last.validation_loss, 4).c_str());
  std::printf("\n");
}

DecoderConfig model_config(const Options& options, std::int64_t vocabulary) {
  ModelEncoding encoding = parse_model_encoding(options.encoding);
  PHASOR_CHECK(options.score == "dot" || options.score == "w2", "train", "--score: ", options.score,
               ", expected dot or w2");
  if (options.score == "w2") encoding.score = Score::w2;
  DecoderConfig config = with_encoding(options.size.config(vocabulary, options.settings.length), encoding);
  if (encoding.scaling) config.encoding = scaled_rope(config.encoding, *encoding.scaling, 1.0, options.settings.length);
  config.attention_dropout = options.dropout;
  return config;
}

void train_new(const Options& options) {
  PHASOR_CHECK(!options.out.empty(), "train", "--out: \"\", expected the name of a folder");
  check_free(options.out);
  check_writable(options.out);
  PHASOR_CHECK(options.data.task || options.data.text, "train", "--task, --text: none given, expected one of them");
  TrainingState state{.settings = options.settings, .data = options.data};
  if (state.data->text) {
    state.data->text = std::filesystem::absolute(*state.data->text).lexically_normal().string();
    state.data->text_size = text_size(*state.data->text);
  }
  state.data->seed = options.seed;
  state.settings.seed = options.seed;
  state.settings.schedule.warmup_steps = options.warmup.value_or(state.settings.schedule.steps / 20);
  const std::unique_ptr<Dataset> data = make_dataset(*state.data);
  Decoder model(model_config(options, data->vocabulary()), options.seed);
  Trainer trainer(model, *data, state);
  std::fprintf(stderr, "%s: %s parameters, %s\n", data_text(options.data).c_str(),
               count(model.parameter_count()).c_str(), describe(model.config().encoding).c_str());
  run(trainer, options);
  finish(trainer.state(), options.out);
}

void resume(const Options& options) {
  const TrainingState state = load_training_state(options.out);
  check_writable(options.out);
  PHASOR_CHECK(state.data.has_value(), "train", options.out, ": its data is not known, expected one of phasor train");
  const std::unique_ptr<Dataset> data = make_dataset(*state.data);
  Decoder model = load_model(options.out);
  Trainer trainer(model, *data, std::filesystem::path(options.out));
  run(trainer, options);
  finish(trainer.state(), options.out);
}

}  // namespace

void add_train(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train a small decoder on a task or a text");
  auto options = std::make_shared<Options>();
  add_data_options(*command, options->data);
  add_size_options(*command, options->size);
  TrainSettings& settings = options->settings;
  command->add_option("--encoding", options->encoding, "Position encoding: rope, alibi, w2-rope, ...")
      ->capture_default_str();
  command->add_option("--score", options->score, "Score of attention: dot or w2")->capture_default_str();
  command->add_option("--steps", settings.schedule.steps, "Steps of the optimizer")->capture_default_str();
  command->add_option("--batch", settings.batch, "Rows of a pass")->capture_default_str();
  command->add_option("--accumulation", settings.accumulation, "Passes of a step")->capture_default_str();
  command->add_option("--length", settings.length, "Tokens of a row")->capture_default_str();
  command->add_option("--lr", settings.schedule.peak, "Highest learning rate")->capture_default_str();
  command->add_option("--warmup", options->warmup, "Steps in which the rate rises (default: a twentieth)");
  command->add_option("--weight-decay", settings.adamw.weight_decay, "Of matrices")->capture_default_str();
  command->add_option("--clip", settings.clip_norm, "Largest norm of the gradient; 0: any")->capture_default_str();
  command->add_option("--dropout", options->dropout, "Of attention weights")->capture_default_str();
  command->add_option("--evaluate-every", settings.evaluate_every, "Steps between validations; 0: none")
      ->capture_default_str();
  command->add_option("--save-every", options->save_every, "Steps between saves; 0: at the end")->capture_default_str();
  command->add_option("--seed", options->seed, "Of weights, data and dropout")->capture_default_str();
  command->add_option("--out", options->out, "The folder to save in")->required();
  command->add_flag("--resume", options->resume, "Go on with the training in --out");
  command->callback([options, command] {
    if (options->resume) {
      check_resume_alone(*command);
      resume(*options);
    } else {
      train_new(*options);
    }
  });
}

}  // namespace phasor::tool
