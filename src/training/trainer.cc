#include "phasor/training/trainer.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "check_fit.h"
#include "check_settings.h"
#include "phasor/core/check.h"
#include "phasor/layers/loss.h"
#include "phasor/training/checkpoint.h"
#include "phasor/training/evaluation.h"

namespace phasor {
namespace {

constexpr const char* kName = "Trainer";

TrainingState checked(TrainingState state) {
  check_settings(kName, state.settings, [](std::string_view path) { return std::string(detail::own_name(path)); });
  return state;
}

void check_finite(const char* what, double value, std::int64_t step) {
  if (std::isfinite(value)) return;
  throw TrainingDiverged("[Trainer] " + std::string(what) + ": " + (std::isnan(value) ? "NaN" : "infinite") +
                         " at step " + std::to_string(step) +
                         ", expected a finite number: the training diverged; a lower learning rate or a lower "
                         "limit of the gradient norm may help");
}

}  // namespace

Trainer::Trainer(Transformer& model, const Dataset& dataset, TrainingState state)
    : model_(model),
      dataset_(dataset),
      state_(checked(std::move(state))),
      optimizer_(model.weights(), state_.settings.adamw),
      batch_(state_.settings.batch, state_.settings.length) {
  detail::check_fit(kName, model, dataset);
  model_.clear_gradients();
}

Trainer::Trainer(Transformer& model, const Dataset& dataset, const Checkpoint& checkpoint)
    : Trainer(model, dataset, checkpoint.training_state()) {
  checkpoint.restore_optimizer(optimizer_);
}

std::int64_t Trainer::tokens_per_step() const {
  return state_.settings.batch * state_.settings.accumulation * state_.settings.length;
}

double Trainer::gradients() {
  const TrainSettings& settings = state_.settings;
  const std::int64_t tokens = settings.batch * settings.length, vocabulary = model_.config().vocab_size;
  const std::int64_t first = state_.steps_done * settings.accumulation;
  double loss = 0.0;
  for (std::int64_t pass = first; pass < first + settings.accumulation; pass++) {
    const Workspace::Scope scope(workspace_);
    dataset_.fill(pass, Split::train, batch_);
    const TensorView<float, 3> logits = workspace_.take(Shape<3>{settings.batch, settings.length, vocabulary});
    const TensorView<float, 2> rows(logits.data, {tokens, vocabulary});
    // Every pass of every training drops other weights.
    const std::uint64_t dropout_seed = settings.seed + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(pass + 1);
    model_.forward(std::as_const(batch_.tokens).view(), logits, &saved_, workspace_, {.dropout_seed = dropout_seed});
    const std::span<const std::int32_t> targets(batch_.targets.data(), static_cast<std::size_t>(tokens));
    loss += cross_entropy(rows, targets, {.grad_logits = rows}, workspace_).loss;
    model_.backward(saved_, logits, workspace_);
  }
  return loss / static_cast<double>(settings.accumulation);
}

double Trainer::validation_loss() {
  const TrainSettings& settings = state_.settings;
  return evaluate(model_, dataset_,
                  {.length = settings.length, .rows = settings.evaluation_rows, .batch = settings.batch}, workspace_)
      .loss;
}

double Trainer::learn() {
  const TrainSettings& settings = state_.settings;
  const auto begin = std::chrono::steady_clock::now();
  const double loss = gradients();
  const double average = 1.0 / static_cast<double>(settings.accumulation);
  const double norm = average * optimizer_.gradient_norm();
  check_finite("loss", loss, state_.steps_done + 1);
  check_finite("gradient norm", norm, state_.steps_done + 1);
  optimizer_.step(learning_rate(settings.schedule, state_.steps_done), average * clip_scale(norm, settings.clip_norm));
  step_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return loss;
}

void Trainer::step() {
  const TrainSettings& settings = state_.settings;
  PHASOR_CHECK(!done(), kName, "step: ", state_.steps_done + 1, ", expected at most the schedule's ",
               settings.schedule.steps);
  PHASOR_CHECK(optimizer_.steps_done() == state_.steps_done, kName, "state: ", state_.steps_done,
               " steps done, expected none but from a folder");
  const double loss = learn();
  state_.steps_done++;
  state_.losses.push_back({.step = state_.steps_done, .train_loss = loss});
  if (settings.evaluate_every == 0 || (state_.steps_done % settings.evaluate_every != 0 && !done())) return;
  const double validation = validation_loss();
  check_finite("validation loss", validation, state_.steps_done);
  state_.losses.back().validation_loss = validation;
}

void Trainer::save(const std::filesystem::path& folder) const { save_training(folder, model_, state_, optimizer_); }

TrainEnd train(Trainer& trainer, const TrainOptions& options) {
  PHASOR_CHECK(options.save_every >= 0, "train", "save_every: ", options.save_every, ", expected 0 (never) or more");
  bool stopped = false;
  while (!trainer.done() && !stopped) {
    trainer.step();
    if (options.progress) options.progress(trainer.state());
    stopped = options.stop_requested && options.stop_requested() && !trainer.done();
    const bool due = options.save_every > 0 && trainer.state().steps_done % options.save_every == 0;
    if (!options.folder.empty() && (stopped || due || trainer.done())) trainer.save(options.folder);
  }
  return stopped ? TrainEnd::stopped : TrainEnd::finished;
}

}  // namespace phasor
