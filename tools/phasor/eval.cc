// phasor eval: how well a trained model does, also at other lengths and with other scalings of RoPE.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "by_position.h"
#include "commands.h"
#include "flags.h"
#include "model_options.h"
#include "phasor/core/check.h"
#include "phasor/training/checkpoint.h"
#include "phasor/training/evaluation.h"
#include "report/comparison.h"
#include "table.h"

namespace phasor::tool {
namespace {

struct Options {
  std::string folder;
  DataChanges data;
  std::optional<std::int64_t> length;
  std::int64_t rows = 256;
  std::optional<std::string> scaling;
  std::optional<double> factor;
};

void print_whole(const Evaluation& found, const Dataset& dataset) {
  Table table({"over", ">value"});
  table.add({"loss", number(found.loss, 4)});
  if (!dataset.exact_match()) table.add({"bits per byte", number(found.loss / std::log(2.0), 4)});
  table.add({"right tokens", report::score_text(found.token_accuracy)});
  if (dataset.exact_match()) table.add({"rows without a mistake", report::score_text(found.row_accuracy)});
  table.add({"tokens counted", count(found.counted)});
  table.print();
}

void print_by_position(const Evaluation& found) {
  Table table({"positions", ">loss", ">right", ">counted"});
  for (const PositionGroup& group : by_position(found))
    table.add({group.positions, number(group.loss, 4), report::score_text(group.accuracy), count(group.counted)});
  table.print();
}

// The data of the training, but for what is given.
DatasetConfig wanted_data(const Options& options, const TrainingState& state) {
  const DataChanges& given = options.data;
  const bool other = given.task || given.text;
  PHASOR_CHECK(other || state.data, "eval", options.folder, ": its data is not known, expected --task or --text");
  DatasetConfig data = state.data.value_or(DatasetConfig{});
  if (other) {
    data.task = given.task;
    data.text = given.text;
    data.text_size.reset();
  }
  PHASOR_CHECK(data.task || !given.symbols, "eval", "--symbols: given for a model of text, expected --task with it");
  data.symbols = given.symbols.value_or(data.symbols);
  data.distance = given.distance.value_or(data.distance);
  return data;
}

void evaluate_folder(const CLI::App& command, const Options& options) {
  PHASOR_CHECK(options.scaling || !options.factor, "eval", "--factor: given without --rope-scaling, expected both");
  const Checkpoint checkpoint(options.folder);
  const TrainingState state = checkpoint.training_state();
  DatasetConfig data = wanted_data(options, state);
  check_data_options(command, data.task);
  if (options.data.text) note_text(data);
  const std::unique_ptr<Dataset> dataset = make_dataset(data);
  Transformer model = checkpoint.model();
  const std::int64_t trained = state.settings.length, length = options.length.value_or(trained);
  if (options.scaling) {
    const double longer = std::max(1.0, static_cast<double>(length) / static_cast<double>(trained));
    model.set_encoding(
        scaled_rope(model.config().encoding, *options.scaling, options.factor.value_or(longer), trained));
  }
  Workspace workspace;
  const std::int64_t batch = std::max<std::int64_t>(1, state.settings.batch * trained / std::max(trained, length));
  const Evaluation found =
      evaluate(model, *dataset, {.length = length, .rows = options.rows, .batch = batch}, workspace);
  std::printf("%s: %s; %s rows of %s tokens (trained with %s)\n\n", options.folder.c_str(),
              model.config().describe_encodings().c_str(), count(found.rows).c_str(), count(length).c_str(),
              count(trained).c_str());
  print_whole(found, *dataset);
  std::printf("\n");
  print_by_position(found);
}

}  // namespace

void add_eval(CLI::App& app) {
  auto* command = app.add_subcommand("eval", "Evaluate a trained model, overall and by position");
  auto options = std::make_shared<Options>();
  command->add_option("folder", options->folder, "Folder written by phasor train")->required();
  add_data_options(*command, options->data);
  command->add_option("--length", options->length, "Sequence length, in tokens (default: as trained)")
      ->check(whole_number(1, INT32_MAX));
  command->add_option("--rows", options->rows, "Number of validation sequences")
      ->capture_default_str()
      ->check(whole_number(1, INT32_MAX));
  command->add_option("--rope-scaling", options->scaling, "RoPE scaling at inference: linear, ntk, dynamic, yarn");
  command->add_option("--factor", options->factor, "Scaling factor (default: --length / training length)")
      ->check(real_number("more than 0 and finite", [](double f) { return f > 0 && std::isfinite(f); }));
  command->callback([options, command] { evaluate_folder(*command, *options); });
}

}  // namespace phasor::tool
