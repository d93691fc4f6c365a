#include "phasor/models/transformer.h"

#include <algorithm>
#include <utility>

#include "phasor/core/parallel.h"
#include "phasor/layers/linear.h"
#include "phasor/layers/positions.h"

namespace phasor {
namespace {

constexpr const char* kModel = "Transformer";

template <class T>
TensorView<T, 2> rows(const TensorView<T, 3>& x) {
  return {x.data, {x.shape[0] * x.shape[1], x.shape[2]}};
}

Transformer::AnyBlock make_block(const TransformerConfig& config, InitialValues& initial) {
  if (config.score == Score::w2) return W2Block(config.block(), initial);
  return Block(config.block(), initial);
}

// Streams [B, T, C]: one, or two with W2.
Streams take_streams(Workspace& workspace, const Shape<3>& shape, bool gaussian) {
  return {workspace.take(shape), gaussian ? workspace.take(shape) : TensorView<float, 3>()};
}

Streams shaped_streams(Tensor<float, 3>& mu, Tensor<float, 3>& log_sigma, const Shape<3>& shape, bool gaussian) {
  return {shaped(mu, shape), gaussian ? shaped(log_sigma, shape) : TensorView<float, 3>()};
}

// Calls block.forward with the Saved of its own kind, or without.
struct ForwardBlock {
  const ConstStreams& x;
  const PlanInput& plan;
  const AttentionOptions& options;
  const Streams& y;
  std::variant<Block::Saved, W2Block::Saved>* saved;
  Workspace& workspace;
  TensorView<float, 4> weights;

  template <class AnyBlock>
  void operator()(const AnyBlock& block) const {
    using Saved = typename AnyBlock::Saved;
    if (saved && !std::holds_alternative<Saved>(*saved)) saved->emplace<Saved>();
    block.forward(x, plan, options, y, saved ? &std::get<Saved>(*saved) : nullptr, workspace, weights);
  }
};

struct BackwardBlock {
  const std::variant<Block::Saved, W2Block::Saved>& saved;
  const ConstStreams& grad_y;
  const Streams& grad_x;
  PlanGradient* grad_plan;
  Workspace& workspace;

  template <class AnyBlock>
  void operator()(AnyBlock& block) const {
    const auto* mine = std::get_if<typename AnyBlock::Saved>(&saved);
    PHASOR_CHECK(mine != nullptr, kModel, "saved: of blocks of another kind, expected what this model saved");
    block.backward(*mine, grad_y, grad_x, grad_plan, workspace);
  }
};

}  // namespace

Transformer::Transformer(const TransformerConfig& config, std::uint64_t seed)
    : Transformer(config.checked(), InitialValues(seed, Init::normal), seed) {}

Transformer Transformer::with_zeros(const TransformerConfig& config) {
  return {config.checked(), InitialValues(0, Init::zeros), 0};
}

Transformer::Transformer(const TransformerConfig& config, InitialValues initial, std::uint64_t seed)
    : config_(config),
      embedding_(config.vocab_size, config.hidden_size, initial),
      norm_(config.hidden_size, static_cast<float>(config.rms_norm_eps)),
      positions_(kModel, config.shape(), config.encoding, config.layer_encodings, seed) {
  if (gaussian()) log_sigma_embedding_.emplace(config.vocab_size, config.hidden_size, initial);
  blocks_.reserve(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::int64_t i = 0; i < config.num_hidden_layers; i++) blocks_.push_back(make_block(config, initial));
  if (!config.tie_word_embeddings) {
    head_ = initial.weight("weight", {config.vocab_size, config.hidden_size}, config.hidden_size);
  }
}

NamedWeights Transformer::weights() & {
  NamedWeights weights;
  embedding_.list_weights("embedding", weights);
  if (log_sigma_embedding_) log_sigma_embedding_->list_weights("log_sigma_embedding", weights);
  positions_.list_weights(weights);
  for (std::size_t i = 0; i < blocks_.size(); i++)
    std::visit([&](auto& block) { block.list_weights("blocks." + std::to_string(i), weights); }, blocks_[i]);
  norm_.list_weights("norm", weights);
  if (head_) list_weight("head", *head_, weights);
  return weights;
}

void Transformer::round_to_bf16() {
  for (const NamedWeight& each : weights())
    if (may_be_bf16(each) && !each.weight->is_bf16()) each.weight->round_to_bf16();
}

// Learned positions are read as floats.
bool Transformer::may_be_bf16(const NamedWeight& weight) {
  return weight.weight->shape().size() == 2 && !weight.name.starts_with("positions.");
}

CacheStorage Transformer::suitable_storage() const {
  return embedding_.weight().is_bf16() && config_.score == Score::dot ? CacheStorage::bf16 : CacheStorage::float32;
}

std::int64_t Transformer::parameter_count() {
  std::int64_t count = 0;
  for (const NamedWeight& each : weights()) count += each.weight->size();
  return count;
}

void Transformer::clear_gradients() {
  const std::vector<NamedWeight> all = weights();
  parallel_for(static_cast<std::int64_t>(all.size()),
               [&](std::int64_t i) { all[static_cast<std::size_t>(i)].weight->clear_gradient(); });
}

void Transformer::set_encoding(const EncodingConfig& encoding) {
  positions_.set_encoding(0, encoding);
  config_.encoding = encoding;
}

void Transformer::set_layer_encoding(std::size_t index, const EncodingConfig& encoding) {
  PHASOR_CHECK(index < config_.layer_encodings.size(), kModel, "layer_encodings: index ", index, ", expected below ",
               config_.layer_encodings.size());
  positions_.set_encoding(index + 1, encoding);
  config_.layer_encodings[index].encoding = encoding;
}

const PlanInput& Transformer::plan_of(const LayerPlans& plans, std::size_t layer) const {
  return plans.plans[positions_.plan_of(static_cast<std::int64_t>(layer))];
}

// Every layer drops other weights.
AttentionOptions Transformer::attention_options(std::uint64_t dropout_seed, std::size_t layer) const {
  AttentionOptions options{.causal = config_.causal};
  if (config_.sliding_window > 0) options.window = config_.sliding_window;
  options.seed = dropout_seed * blocks_.size() + layer;
  return options;
}

void Transformer::embed(TensorView<const std::int32_t, 2> tokens, const PositionPlan& plan, const Streams& x) const {
  embedding_.forward(tokens, x.mu);
  if (log_sigma_embedding_) log_sigma_embedding_->forward(tokens, x.log_sigma);
  add_positions(plan, x.mu);
}

void Transformer::forward(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> logits, Saved* saved,
                          Workspace& workspace, const ForwardOptions& options) const {
  const std::int64_t batch = tokens.shape[0], length = tokens.shape[1];
  PHASOR_CHECK(logits.shape == Shape<3>({batch, length, config_.vocab_size}), kModel,
               "logits: ", shape_text(logits.shape), ", expected [", batch, ", ", length, ", ", config_.vocab_size,
               "]");
  const Workspace::Scope scope(workspace);
  const Shape<3> shape{batch, length, config_.hidden_size};
  Saved unsaved;  // holds the plans of a call without gradients
  Saved& to = saved ? *saved : unsaved;
  positions_.make_plans(options.first_position, length, to.plans);
  if (saved) save_tokens(tokens, *saved);

  Streams x = saved ? shaped_streams(to.layers[0].mu, to.layers[0].log_sigma, shape, gaussian())
                    : take_streams(workspace, shape, gaussian());
  embed(tokens, *to.plans.plans[0], x);
  for (std::size_t i = 0; i < blocks_.size(); i++) {
    const bool last = i + 1 == blocks_.size();
    const Streams y = !saved ? x
                      : last ? shaped_streams(to.last, to.last_log_sigma, shape, gaussian())
                             : shaped_streams(to.layers[i + 1].mu, to.layers[i + 1].log_sigma, shape, gaussian());
    const bool wanted = static_cast<std::int64_t>(i) == options.weights_layer;
    const AttentionOptions attention = attention_options(options.dropout_seed, i);
    std::visit(ForwardBlock{x, plan_of(to.plans, i), attention, y, saved ? &to.layers[i].block : nullptr, workspace,
                            wanted ? options.weights : TensorView<float, 4>()},
               blocks_[i]);
    x = y;
  }
  const TensorView<float, 3> normed = saved ? shaped(to.normed, shape) : workspace.take(shape);
  norm_.forward(rows<const float>(x.mu), rows(normed), saved ? &to.norm : nullptr);
  linear_forward(head(), rows<const float>(normed), rows(logits));
}

void Transformer::save_tokens(TensorView<const std::int32_t, 2> tokens, Saved& saved) const {
  const TensorView<std::int32_t, 2> copy = shaped(saved.tokens, tokens.shape);
  for (std::int64_t b = 0; b < tokens.shape[0]; b++)
    for (std::int64_t t = 0; t < tokens.shape[1]; t++) copy(b, t) = tokens(b, t);
  saved.layers.resize(blocks_.size());
}

void Transformer::backward(const Saved& saved, TensorView<const float, 3> grad_logits, Workspace& workspace) {
  PHASOR_CHECK(saved.layers.size() == blocks_.size() && saved.norm.x.data != nullptr, kModel,
               "saved: empty, expected what a forward pass saved");
  const Shape<3>& shape = saved.normed.shape();
  PHASOR_CHECK(grad_logits.shape == Shape<3>({shape[0], shape[1], config_.vocab_size}), kModel,
               "grad_logits: ", shape_text(grad_logits.shape), ", expected [", shape[0], ", ", shape[1], ", ",
               config_.vocab_size, "]");
  const Workspace::Scope scope(workspace);
  Streams grad = take_streams(workspace, shape, gaussian()), other = take_streams(workspace, shape, gaussian());
  std::vector<PlanGradient> grad_plans(positions_.count());
  const TensorView<float, 2> grad_normed = rows(other.mu);
  linear_backward(head(), rows<const float>(saved.normed.view()), rows(grad_logits), grad_normed);
  norm_.backward(saved.norm, grad_normed, rows(grad.mu), workspace);
  if (gaussian()) std::fill_n(grad.log_sigma.data, grad.log_sigma.size(), 0.0f);  // the head reads mu
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const std::size_t plan = positions_.plan_of(static_cast<std::int64_t>(i));
    PlanGradient* grad_plan = positions_.learns(plan) ? &grad_plans[plan] : nullptr;
    std::visit(BackwardBlock{saved.layers[i].block, grad, other, grad_plan, workspace}, blocks_[i]);
    std::swap(grad, other);
  }
  embedding_.backward(saved.tokens.view(), grad.mu);
  if (log_sigma_embedding_) log_sigma_embedding_->backward(saved.tokens.view(), grad.log_sigma);
  if (positions_.learns(0)) add_positions_backward(*saved.plans.plans[0], grad.mu, grad_plans[0]);
  positions_.backward(saved.plans, grad_plans);
}

// ---- decoding ----

void Transformer::Cache::truncate(std::int64_t length) {
  PHASOR_CHECK(length >= 0 && length <= length_, "Transformer::Cache", "length: ", length, ", expected 0 to ", length_);
  for (LayerCache& layer : layers_)
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(layer.lengths().size()); b++) layer.truncate(b, length);
  length_ = length;
}

Transformer::Cache Transformer::make_cache(const LayerCacheConfig& config) const {
  Cache cache;
  cache.capacity_ = config.capacity;
  cache.keys_ = config.keys;
  for (const AnyBlock& block : blocks_)
    cache.layers_.push_back(std::visit([&](const auto& each) { return each.make_cache(config); }, block));
  return cache;
}

void Transformer::decode(TensorView<const std::int32_t, 2> tokens, Cache& cache, TensorView<float, 2> logits,
                         Workspace& workspace) const {
  PHASOR_CHECK(config_.causal, kModel, "decode: of a model that is not causal, expected a causal one");
  const std::int64_t batch = tokens.shape[0], count = tokens.shape[1], length = cache.length_ + count;
  PHASOR_CHECK(count >= 1, kModel, "tokens: ", shape_text(tokens.shape), ", expected at least one token");
  PHASOR_CHECK(length <= cache.capacity_, kModel, "tokens: ", count, " more after ", cache.length_,
               ", expected at most the cache's ", cache.capacity_);
  PHASOR_CHECK(logits.shape == Shape<2>({batch, config_.vocab_size}), kModel, "logits: ", shape_text(logits.shape),
               ", expected [", batch, ", ", config_.vocab_size, "]");
  const Workspace::Scope scope(workspace);
  const LayerPlans plans = positions_.decoding_plans(cache.length_, count, cache.keys_);
  const Streams x = take_streams(workspace, {batch, count, config_.hidden_size}, gaussian());
  embed(tokens, *plans.plans[0], x);
  for (std::size_t i = 0; i < blocks_.size(); i++)
    std::visit(
        [&](const auto& block) {
          block.decode(x, plan_of(plans, i), attention_options(0, i), cache.layers_[i], x, workspace);
        },
        blocks_[i]);
  cache.length_ = length;
  const TensorView<float, 2> last = workspace.take(Shape<2>{batch, config_.hidden_size});
  const TensorView<const float, 3> all = x.mu;
  norm_.forward({all.data + (count - 1) * all.strides[1], last.shape, {all.strides[0], 1}}, last);
  linear_forward(head(), last, logits);
}

}  // namespace phasor
