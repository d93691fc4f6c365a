// phasor train: a small transformer on a task or a text, into a folder.
#include <cstdio>
#include <filesystem>
#include <map>

#include "commands.h"
#include "files/atomic_file.h"
#include "flags.h"
#include "interrupt.h"
#include "model_options.h"
#include "phasor/core/check.h"
#include "phasor/core/folder_lock.h"
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
  std::optional<std::string> score;
  TrainSettings settings{.schedule = {.peak = 3e-3, .steps = 500}};
  std::optional<std::int64_t> warmup;
  double dropout = 0.0;
  std::uint64_t seed = 1;
  std::string out;
  bool resume = false;
  std::int64_t save_every = 100;
};

// Settings of a training do not change while it runs; how often it is saved is none of them.
void check_resume_alone(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const bool allowed =
        option->check_name("--resume") || option->check_name("--out") || option->check_name("--save-every");
    PHASOR_CHECK(option->count() == 0 || allowed, "train", option->get_name(),
                 ": given with --resume, expected only --out and --save-every: the settings are the folder's");
  }
}

// The flag of a setting.
std::string flag_of(std::string_view path) {
  static const std::map<std::string_view, const char*> flags{
      {"schedule.peak", "--lr"},     {"schedule.warmup_steps", "--warmup"},
      {"schedule.steps", "--steps"}, {"adamw.weight_decay", "--weight-decay"},
      {"clip_norm", "--clip"},       {"evaluate_every", "--evaluate-every"}};
  const auto found = flags.find(path);
  return found != flags.end() ? found->second : "--" + std::string(path);
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
    std::fprintf(stderr, "\nstopped and saved; to continue: phasor train --resume --out %s\n", options.out.c_str());
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

ModelEncoding wanted_encoding(const Options& options) {
  ModelEncoding encoding = parse_model_encoding("--encoding", options.encoding);
  PHASOR_CHECK(!encoding.scaling, "train", "--encoding: ", options.encoding, ", expected ", encoding.trained_as(),
               ": scalings apply at inference (phasor eval --rope-scaling ", encoding.scaling.value_or(""), ")");
  if (!options.score) return encoding;
  PHASOR_CHECK(options.score == "dot" || options.score == "w2", "train", "--score: ", *options.score,
               ", expected dot or w2");
  PHASOR_CHECK(encoding.score == Score::dot || options.score == "w2", "train", "--score: dot with --encoding ",
               options.encoding, ", expected w2, or an encoding without w2-");
  if (options.score == "w2") encoding.score = Score::w2;
  return encoding;
}

TrainingState first_state(const Options& options) {
  PHASOR_CHECK(options.data.task || options.data.text, "train", "--task, --text: none given, expected one of them");
  TrainingState state{.settings = options.settings, .data = options.data};
  if (state.data->text) state.data->text = std::filesystem::absolute(*state.data->text).lexically_normal().string();
  state.data->seed = options.seed;
  state.settings.seed = options.seed;
  state.settings.schedule.warmup_steps = options.warmup.value_or(state.settings.schedule.steps / 20);
  check_settings("train", state.settings, flag_of);
  return state;
}

void train_new(const Options& options) {
  const ModelEncoding encoding = wanted_encoding(options);
  TrainingState state = first_state(options);
  PHASOR_CHECK(!options.out.empty(), "train", "--out: \"\", expected the name of a folder");
  const FolderLock lock = FolderLock::beside(options.out);
  check_free(options.out);
  check_writable(options.out);
  note_text(*state.data);
  const std::unique_ptr<Dataset> data = make_dataset(*state.data);
  TransformerConfig config = with_encoding(options.size.config(data->vocabulary(), state.settings.length), encoding);
  config.attention_dropout = options.dropout;
  Transformer model(config, options.seed);
  Trainer trainer(model, *data, state);
  std::fprintf(stderr, "%s: %s parameters, %s\n", data_text(options.data).c_str(),
               count(model.parameter_count()).c_str(), model.config().describe_encodings().c_str());
  run(trainer, options);
  finish(trainer.state(), options.out);
}

void resume(const Options& options) {
  const FolderLock lock = FolderLock::beside(options.out);
  const Checkpoint checkpoint(options.out);
  const TrainingState state = checkpoint.training_state();
  check_writable(options.out);
  PHASOR_CHECK(state.data.has_value(), "train", options.out, ": its data is not known, expected one of phasor train");
  const std::unique_ptr<Dataset> data = make_dataset(*state.data);
  Transformer model = checkpoint.model();
  Trainer trainer(model, *data, checkpoint);
  run(trainer, options);
  finish(trainer.state(), options.out);
}

}  // namespace

void add_train(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train a small transformer on a built-in task or a text");
  auto options = std::make_shared<Options>();
  add_data_options(*command, options->data);
  add_size_options(*command, options->size);
  TrainSettings& settings = options->settings;
  // Ranges of what a training has in its settings are check_settings'.
  const auto setting = [&](const char* name, auto& value, const char* help) {
    command->add_option(name, value, help)->capture_default_str()->check(whole_number());
  };
  const auto real_setting = [&](const char* name, double& value, const char* help) {
    command->add_option(name, value, help)->capture_default_str()->check(real_number());
  };
  command->add_option("--encoding", options->encoding, "Position encoding: rope, alibi, w2-rope, ...")
      ->capture_default_str();
  command->add_option("--score", options->score, "Attention score: dot or w2 (default: dot, w2 for w2-ENCODING)");
  setting("--steps", settings.schedule.steps, "Number of optimizer steps");
  setting("--batch", settings.batch, "Batch size, in sequences");
  setting("--accumulation", settings.accumulation, "Gradient-accumulation steps");
  setting("--length", settings.length, "Sequence length, in tokens");
  real_setting("--lr", settings.schedule.peak, "Peak learning rate");
  command->add_option("--warmup", options->warmup, "Warm-up steps (default: a twentieth of --steps)")
      ->check(whole_number());
  real_setting("--weight-decay", settings.adamw.weight_decay, "Weight decay, applied to matrices");
  real_setting("--clip", settings.clip_norm, "Largest gradient norm; 0: no clipping");
  command->add_option("--dropout", options->dropout, "Dropout of attention weights")
      ->capture_default_str()
      ->check(real_number("a number from 0 to less than 1", [](double rate) { return rate >= 0 && rate < 1; }));
  setting("--evaluate-every", settings.evaluate_every, "Steps between validations; 0: none");
  command->add_option("--save-every", options->save_every, "Steps between checkpoints; 0: only at the end")
      ->capture_default_str()
      ->check(whole_number(0));
  command->add_option("--seed", options->seed, "Random seed of weights, data and dropout")
      ->capture_default_str()
      ->check(whole_number<std::uint64_t>());
  command->add_option("--out", options->out, "Folder to save in")->required();
  command->add_flag("--resume", options->resume, "Continue the training in --out");
  command->callback([options, command] {
    if (options->resume) {
      check_resume_alone(*command);
      resume(*options);
    } else {
      check_data_options(*command, options->data.task);
      train_new(*options);
    }
  });
}

}  // namespace phasor::tool
