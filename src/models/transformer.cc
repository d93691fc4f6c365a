#include "phasor/models/transformer.h"

#include <algorithm>
#include <functional>
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

Transformer::AnyBlock make_block(const TransformerConfig& config, std::int64_t layer, InitialValues& initial) {
  if (config.score == Score::w2) return W2Block(config.block(layer), initial);
  return Block(config.block(layer), initial);
}

TensorView<std::int32_t, 2> copy_tokens(TensorView<const std::int32_t, 2> from, Tensor<std::int32_t, 2>& to) {
  const TensorView<std::int32_t, 2> copy = shaped(to, from.shape);
  for (std::int64_t b = 0; b < from.shape[0]; b++)
    for (std::int64_t t = 0; t < from.shape[1]; t++) copy(b, t) = from(b, t);
  return copy;
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
      embedding_(config.vocab_size, config.hidden_size, initial, config.embedding_scale),
      positions_(kModel, config.shape(), config.encoding, config.layer_encodings, seed) {
  if (gaussian()) log_sigma_embedding_.emplace(config.vocab_size, config.hidden_size, initial);
  if (config.type_vocab_size > 0) type_embedding_.emplace(config.type_vocab_size, config.hidden_size, initial);
  if (config.embedding_norm) embedding_norm_.emplace(config.hidden_size, config.norm_config());
  blocks_.reserve(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::int64_t i = 0; i < config.num_hidden_layers; i++) blocks_.push_back(make_block(config, i, initial));
  if (config.final_norm) norm_.emplace(config.hidden_size, config.norm_config());
  if (config.output_head) head_.emplace(config.head(), initial);
}

NamedWeights Transformer::weights() & {
  NamedWeights weights;
  embedding_.list_weights("embedding", weights);
  if (log_sigma_embedding_) log_sigma_embedding_->list_weights("log_sigma_embedding", weights);
  if (type_embedding_) type_embedding_->list_weights("type_embedding", weights);
  if (embedding_norm_) embedding_norm_->list_weights("embedding_norm", weights);
  positions_.list_weights(weights);
  for (std::size_t i = 0; i < blocks_.size(); i++)
    std::visit([&](auto& block) { block.list_weights("blocks." + std::to_string(i), weights); }, blocks_[i]);
  if (norm_) norm_->list_weights("norm", weights);
  if (head_) head_->list_weights("head", weights);
  return weights;
}

void Transformer::round_to_bf16() {
  for (const NamedWeight& each : weights())
    if (may_be_narrow(each) && !each.weight->is_bf16()) each.weight->round_to_bf16();
}

// Learned positions are read as floats.
bool Transformer::may_be_narrow(const NamedWeight& weight) {
  return weight.weight->shape().size() == 2 && weight.name.find("positions.") == std::string::npos;
}

CacheStorage Transformer::suitable_storage() const {
  if (config_.score == Score::w2) return CacheStorage::float32;
  return embedding_.weight().is_bf16()  ? CacheStorage::bf16
         : embedding_.weight().is_f16() ? CacheStorage::f16
                                        : CacheStorage::float32;
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
AttentionOptions Transformer::attention_options(const ForwardOptions& call, std::size_t layer) const {
  AttentionOptions options{.causal = config_.causal, .key_lengths = call.lengths, .softcap = config_.attention_softcap};
  const std::int64_t window = config_.sliding_window;
  if (config_.slides(static_cast<std::int64_t>(layer)))
    options.window = config_.causal ? Window(window) : Window(window, window);
  options.seed = call.dropout_seed * blocks_.size() + layer;
  return options;
}

void Transformer::embed(TensorView<const std::int32_t, 2> tokens, const PositionPlan& plan, const Streams& x,
                        const ForwardOptions& options, Saved* saved) const {
  const bool has_norm = embedding_norm_.has_value();
  const TensorView<float, 3> mu = has_norm && saved ? shaped(saved->embedded, x.mu.shape) : x.mu;
  embedding_.forward(tokens, mu);
  if (log_sigma_embedding_) log_sigma_embedding_->forward(tokens, x.log_sigma);
  if (type_embedding_) {
    const Tensor<std::int32_t, 2> zeros(options.token_types.data ? Shape<2>{0, 0} : tokens.shape);
    const TensorView<const std::int32_t, 2> types = options.token_types.data ? options.token_types : zeros.view();
    type_embedding_->forward(types, mu, Into::add);
    if (saved) copy_tokens(types, saved->token_types);
  }
  add_positions(plan, mu);
  if (has_norm) embedding_norm_->forward(rows<const float>(mu), rows(x.mu), saved ? &saved->embedding_norm : nullptr);
}

void Transformer::embed_backward(const Saved& saved, const Streams& grad, PlanGradient& grad_plan,
                                 Workspace& workspace) {
  if (embedding_norm_)
    embedding_norm_->backward(saved.embedding_norm, rows<const float>(grad.mu), rows(grad.mu), workspace);
  embedding_.backward(saved.tokens.view(), grad.mu);
  if (log_sigma_embedding_) log_sigma_embedding_->backward(saved.tokens.view(), grad.log_sigma);
  if (type_embedding_) type_embedding_->backward(saved.token_types.view(), grad.mu);
  if (positions_.learns(0)) add_positions_backward(*saved.plans.plans[0], grad.mu, grad_plan);
}

void Transformer::normalise(TensorView<const float, 2> x, TensorView<float, 2> normed, Norm::Saved* saved) const {
  if (norm_) return norm_->forward(x, normed, saved);
  if (x.data == normed.data) return;
  for (std::int64_t n = 0; n < x.shape[0]; n++) std::copy_n(&x(n, 0), x.shape[1], &normed(n, 0));
}

void Transformer::check_options(const ForwardOptions& options) const {
  PHASOR_CHECK(type_embedding_ || !options.token_types.data, kModel,
               "token_types: given to a model without type_vocab_size, expected none");
  PHASOR_CHECK(!options.weights.data || (options.weights_layer >= 0 && options.weights_layer < std::ssize(blocks_)),
               kModel, "weights_layer: ", options.weights_layer, ", expected 0 to ", std::ssize(blocks_) - 1);
}

void Transformer::run(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> normed, Saved* saved,
                      Workspace& workspace, const ForwardOptions& options) const {
  check_options(options);
  const std::int64_t length = tokens.shape[1];
  const Workspace::Scope scope(workspace);
  const Shape<3>& shape = normed.shape;
  Saved unsaved;  // holds the plans of a call without gradients
  Saved& to = saved ? *saved : unsaved;
  positions_.make_plans(options.first_position, length, to.plans);
  ForwardOptions call = options;
  if (saved) {
    copy_tokens(tokens, saved->tokens);
    saved->lengths.assign(options.lengths.begin(), options.lengths.end());
    saved->layers.resize(blocks_.size());
    call.lengths = saved->lengths;
  }
  Streams x = saved ? shaped_streams(to.layers[0].mu, to.layers[0].log_sigma, shape, gaussian())
                    : take_streams(workspace, shape, gaussian());
  embed(tokens, *to.plans.plans[0], x, options, saved);
  for (std::size_t i = 0; i < blocks_.size(); i++) {
    const bool last = i + 1 == blocks_.size();
    const Streams y = !saved ? x
                      : last ? shaped_streams(to.last, to.last_log_sigma, shape, gaussian())
                             : shaped_streams(to.layers[i + 1].mu, to.layers[i + 1].log_sigma, shape, gaussian());
    const bool wanted = static_cast<std::int64_t>(i) == options.weights_layer;
    const AttentionOptions attention = attention_options(call, i);
    std::visit(ForwardBlock{x, plan_of(to.plans, i), attention, y, saved ? &to.layers[i].block : nullptr, workspace,
                            wanted ? options.weights : TensorView<float, 4>()},
               blocks_[i]);
    x = y;
  }
  normalise(rows<const float>(x.mu), rows(normed), saved ? &to.norm : nullptr);
}

void Transformer::encode(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> states, Workspace& workspace,
                         const ForwardOptions& options) const {
  const Shape<3> expected{tokens.shape[0], tokens.shape[1], config_.hidden_size};
  PHASOR_CHECK(states.shape == expected, kModel, "states: ", shape_text(states.shape), ", expected ",
               shape_text(expected));
  run(tokens, states, nullptr, workspace, options);
}

void Transformer::forward(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> logits, Saved* saved,
                          Workspace& workspace, const ForwardOptions& options) const {
  const std::int64_t batch = tokens.shape[0], length = tokens.shape[1];
  PHASOR_CHECK(head_.has_value(), kModel, "forward: of a model without an output head, expected encode");
  PHASOR_CHECK(logits.shape == Shape<3>({batch, length, config_.vocab_size}), kModel,
               "logits: ", shape_text(logits.shape), ", expected [", batch, ", ", length, ", ", config_.vocab_size,
               "]");
  const Workspace::Scope scope(workspace);
  const Shape<3> shape{batch, length, config_.hidden_size};
  const TensorView<float, 3> normed = saved ? shaped(saved->normed, shape) : workspace.take(shape);
  run(tokens, normed, saved, workspace, options);
  head_->forward(rows<const float>(normed), embedding_.weight(), rows(logits), saved ? &saved->head : nullptr,
                 workspace);
}

void Transformer::backward(const Saved& saved, TensorView<const float, 3> grad_logits, Workspace& workspace) {
  PHASOR_CHECK(saved.layers.size() == blocks_.size() && saved.head.x.data != nullptr, kModel,
               "saved: empty, expected what a forward pass saved");
  const Shape<3>& shape = saved.normed.shape();
  PHASOR_CHECK(grad_logits.shape == Shape<3>({shape[0], shape[1], config_.vocab_size}), kModel,
               "grad_logits: ", shape_text(grad_logits.shape), ", expected [", shape[0], ", ", shape[1], ", ",
               config_.vocab_size, "]");
  const Workspace::Scope scope(workspace);
  Streams grad = take_streams(workspace, shape, gaussian()), other = take_streams(workspace, shape, gaussian());
  std::vector<PlanGradient> grad_plans(positions_.count());
  const TensorView<float, 2> grad_normed = rows(norm_ ? other.mu : grad.mu);
  head_->backward(saved.head, embedding_.weight(), rows(grad_logits), grad_normed, workspace);
  if (norm_) norm_->backward(saved.norm, grad_normed, rows(grad.mu), workspace);
  if (gaussian()) std::fill_n(grad.log_sigma.data, grad.log_sigma.size(), 0.0f);  // the head reads mu
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const std::size_t plan = positions_.plan_of(static_cast<std::int64_t>(i));
    PlanGradient* grad_plan = positions_.learns(plan) ? &grad_plans[plan] : nullptr;
    std::visit(BackwardBlock{saved.layers[i].block, grad, other, grad_plan, workspace}, blocks_[i]);
    std::swap(grad, other);
  }
  embed_backward(saved, grad, grad_plans[0], workspace);
  positions_.backward(saved.plans, grad_plans);
}

// ---- decoding ----

std::int64_t Transformer::Cache::length() const { return lengths_.empty() ? 0 : *std::ranges::max_element(lengths_); }

void Transformer::Cache::truncate(std::int64_t length) {
  PHASOR_CHECK(length >= 0 && length <= this->length(), "Transformer::Cache", "length: ", length, ", expected 0 to ",
               this->length());
  for (std::size_t b = 0; b < lengths_.size(); b++) {
    lengths_[b] = std::min(lengths_[b], length);
    for (LayerCache& layer : layers_) layer.truncate(static_cast<std::int64_t>(b), lengths_[b]);
  }
}

std::vector<std::vector<std::span<std::byte>>> Transformer::Cache::replace_rows(std::int64_t length) {
  PHASOR_CHECK(lengths_.size() == 1, "Transformer::Cache", "sequences: ", lengths_.size(), ", expected 1");
  std::vector<std::vector<std::span<std::byte>>> rows;
  for (LayerCache& layer : layers_) {
    rows.push_back(layer.mu.replace_rows(0, length));
    if (layer.log_sigma) rows.push_back(layer.log_sigma->replace_rows(0, length));
  }
  lengths_[0] = length;
  return rows;
}

Transformer::Cache Transformer::make_cache(const LayerCacheConfig& config) const {
  Cache cache;
  cache.lengths_.assign(static_cast<std::size_t>(config.batch), 0);
  cache.capacity_ = config.capacity;
  cache.keys_ = config.keys;
  cache.storage_ = config.storage;
  for (const AnyBlock& block : blocks_)
    cache.layers_.push_back(std::visit([&](const auto& each) { return each.make_cache(config); }, block));
  return cache;
}

void Transformer::read_states(TensorView<const float, 3> states, std::span<const std::int64_t> lengths, Cache& cache,
                              Workspace& workspace) const {
  for (std::size_t i = 0; i < blocks_.size(); i++)
    std::visit(
        [&](const auto& block) { block.read_states(states, lengths, cache.storage_, cache.layers_[i], workspace); },
        blocks_[i]);
}

void Transformer::check_decode(TensorView<const std::int32_t, 2> tokens, const Cache& cache,
                               TensorView<float, 2> logits, std::span<const std::int64_t> counts) const {
  PHASOR_CHECK(head_.has_value(), kModel, "decode: of a model without an output head, expected one with it");
  PHASOR_CHECK(config_.causal, kModel, "decode: of a model that is not causal, expected a causal one");
  const std::int64_t batch = tokens.shape[0], count = tokens.shape[1];
  PHASOR_CHECK(tokens.size() >= 1, kModel, "tokens: ", shape_text(tokens.shape), ", expected at least one token");
  PHASOR_CHECK(batch == std::ssize(cache.lengths_), kModel, "tokens: ", shape_text(tokens.shape), ", expected the ",
               cache.lengths_.size(), " sequences of the cache");
  PHASOR_CHECK(counts.empty() || std::ssize(counts) == batch, kModel, "counts: ", counts.size(), ", expected ", batch,
               ", one for each sequence, or none");
  for (std::size_t b = 0; b < cache.lengths_.size(); b++) {
    const std::int64_t more = counts.empty() ? count : counts[b];
    PHASOR_CHECK(more >= 0 && more <= count, kModel, "counts: ", more, ", expected 0 to ", count);
    PHASOR_CHECK(more <= cache.capacity_ - cache.lengths_[b], kModel, "tokens: ", more, " more after ",
                 cache.lengths_[b], ", expected at most the cache's ", cache.capacity_);
  }
  const bool same = std::ranges::adjacent_find(cache.lengths_, std::not_equal_to<>()) == cache.lengths_.end();
  PHASOR_CHECK(
      cache.keys_ == CachedKeys::rotated || (same && counts.empty()), kModel,
      "tokens: of sequences of different lengths, with unrotated keys, expected one length: their angles follow "
      "the length");
  PHASOR_CHECK(logits.shape == Shape<2>({batch, config_.vocab_size}), kModel, "logits: ", shape_text(logits.shape),
               ", expected [", batch, ", ", config_.vocab_size, "]");
}

void Transformer::decode(TensorView<const std::int32_t, 2> tokens, Cache& cache, TensorView<float, 2> logits,
                         Workspace& workspace, std::span<const std::int64_t> counts) const {
  check_decode(tokens, cache, logits, counts);
  const std::int64_t batch = tokens.shape[0], count = tokens.shape[1];
  const auto count_of = [&](std::size_t b) { return counts.empty() ? count : counts[b]; };
  std::vector<std::int64_t> lengths = cache.lengths_;
  for (std::size_t b = 0; b < lengths.size(); b++) lengths[b] += count_of(b);
  const std::int64_t longest = std::max<std::int64_t>(1, *std::ranges::max_element(lengths));
  const Workspace::Scope scope(workspace);
  const LayerPlans plans = positions_.decoding_plans(cache.lengths_, count, longest, cache.keys_);
  const Streams x = take_streams(workspace, {batch, count, config_.hidden_size}, gaussian());
  embed(tokens, *plans.plans[0], x, {}, nullptr);
  for (std::size_t i = 0; i < blocks_.size(); i++)
    std::visit(
        [&](const auto& block) {
          block.decode(x, plan_of(plans, i), attention_options({}, i), cache.layers_[i], x, workspace, counts);
        },
        blocks_[i]);
  cache.lengths_ = std::move(lengths);
  const TensorView<float, 2> last = workspace.take(Shape<2>{batch, config_.hidden_size});
  for (std::int64_t b = 0; b < batch; b++) {
    const std::int64_t t = std::max<std::int64_t>(0, count_of(static_cast<std::size_t>(b)) - 1);
    std::copy_n(&x.mu(b, t, 0), config_.hidden_size, &last(b, 0));
  }
  normalise(last, last, nullptr);
  head_->forward(last, embedding_.weight(), logits, nullptr, workspace);
}

}  // namespace phasor
