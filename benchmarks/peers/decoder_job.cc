// A step of training a decoder: forward, loss, backward and, if wanted, AdamW. Weights are files, by the names the
// model lists; so are tokens and targets, as floats, which hold them exactly.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "job.h"
#include "phasor/layers/loss.h"
#include "phasor/models/transformer.h"
#include "phasor/position/rope.h"
#include "phasor/training/optimizer.h"
#include "weight_files.h"

namespace phasor {
namespace {

using nlohmann::json;

TransformerConfig decoder_config(const json& settings) {
  const std::int64_t hidden = settings.at("hidden"), heads = settings.at("heads");
  return {.vocab_size = settings.at("vocabulary"),
          .hidden_size = hidden,
          .num_hidden_layers = settings.at("layers"),
          .num_attention_heads = heads,
          .num_key_value_heads = settings.at("key_heads"),
          .intermediate_size = settings.at("feed_forward"),
          .encoding = RopeConfig{.head_dim = hidden / heads}};
}

Tensor<std::int32_t, 2> read_tokens(const Files& files, const std::string& name, const Shape<2>& shape) {
  const Tensor<float, 2> stored = files.read<2>(name, shape);
  Tensor<std::int32_t, 2> tokens(shape);
  std::ranges::transform(stored, tokens.begin(), [](float token) { return static_cast<std::int32_t>(token); });
  return tokens;
}

class DecoderJob : public Job {
 public:
  DecoderJob(const json& settings, const Files& files)
      : model_(decoder_config(settings), 1),
        weights_(model_.weights()),
        learning_rate_(settings.at("learning_rate")),
        shape_{settings.at("batch"), settings.at("tokens")},
        tokens_(read_tokens(files, "tokens", shape_)),
        targets_(read_tokens(files, "targets", shape_)),
        losses_({tokens_.size()}),
        logits_({shape_[0], shape_[1], model_.config().vocab_size}) {
    read_weights(files, weights_);
    if (learning_rate_ > 0) optimizer_.emplace(weights_, AdamWConfig{});
  }

  void run() override {
    if (!optimizer_) model_.clear_gradients();
    model_.forward(tokens_.view(), logits_.view(), &saved_, workspace_);
    const auto count = static_cast<std::size_t>(tokens_.size());
    const TensorView<float, 2> rows{logits_.data(), {tokens_.size(), logits_.shape()[2]}};
    cross_entropy(rows, {targets_.data(), count}, {.grad_logits = rows, .row_losses = {losses_.data(), count}},
                  workspace_);
    model_.backward(saved_, logits_.view(), workspace_);
    if (optimizer_) optimizer_->step(learning_rate_);  // which also clears the gradients
  }

  std::vector<std::string> save(const Files& files) const override {
    std::vector<std::string> saved{"losses"};
    files.write("losses", losses_);
    if (!optimizer_) write_gradients(files, weights_, saved);
    return saved;
  }

 private:
  Transformer model_;
  NamedWeights weights_;
  double learning_rate_;  // 0: no optimizer
  std::optional<AdamW> optimizer_;
  Shape<2> shape_;
  Tensor<std::int32_t, 2> tokens_, targets_;
  Tensor<float, 1> losses_;
  Tensor<float, 3> logits_;  // then their gradients
  Transformer::Saved saved_;
  Workspace workspace_;
};

}  // namespace

std::unique_ptr<Job> make_decoder_job(const json& settings, const Files& files) {
  return std::make_unique<DecoderJob>(settings, files);
}

}  // namespace phasor
