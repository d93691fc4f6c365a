#include "phasor/models/layer_positions.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace phasor {

// The plan of the last call of an encoding that learns nothing.
class LayerPositions::Kept {
 public:
  std::optional<PlanInput> find(std::int64_t first, std::int64_t count) {
    const std::lock_guard lock(mutex_);
    if (plan_ && first_ == first && count_ == count) return plan_;
    return std::nullopt;
  }
  void keep(std::int64_t first, std::int64_t count, const PlanInput& plan) {
    const std::lock_guard lock(mutex_);
    first_ = first, count_ = count, plan_ = plan;
  }

 private:
  std::mutex mutex_;
  std::int64_t first_ = 0, count_ = 0;
  std::optional<PlanInput> plan_;
};

LayerPositions::LayerPositions(const char* model, const ModelShape& shape, const EncodingConfig& encoding,
                               std::span<const LayerEncoding> others, std::uint64_t seed)
    : model_(model), shape_(shape) {
  entries_.push_back({encoding, {}, parameters(encoding, shape, seed), std::make_shared<Kept>()});
  const Tensor<std::int64_t, 3> one_token = consecutive_positions(1);
  for (const LayerEncoding& other : others) {
    std::vector<Weight> weights = parameters(other.encoding, shape, seed + entries_.size());
    const PositionPlan plan = lower(other.encoding, weights, {.queries = one_token.view(), .shape = shape});
    PHASOR_CHECK(!plan.add, model, "layer_encodings[", entries_.size() - 1, "]: ", other.encoding.name(),
                 ", which is added to token embeddings, expected one of q and k or of scores");
    entries_.push_back({other.encoding, other.layers, std::move(weights), std::make_shared<Kept>()});
  }
}

std::size_t LayerPositions::plan_of(std::int64_t layer) const {
  for (std::size_t i = 1; i < entries_.size(); i++)
    if (std::ranges::count(entries_[i].layers, layer) != 0) return i;
  return 0;
}

void LayerPositions::list_weights(NamedWeights& weights) {
  for (std::size_t i = 0; i < entries_.size(); i++)
    for (Weight& weight : entries_[i].weights)
      list_weight(i == 0 ? "positions" : "layer_positions." + std::to_string(i - 1), weight, weights);
}

void LayerPositions::set_encoding(std::size_t plan, const EncodingConfig& encoding) {
  Entry& entry = entries_.at(plan);
  const auto alike = [](const Weight& a, const Weight& b) { return a.name() == b.name() && a.shape() == b.shape(); };
  PHASOR_CHECK(std::ranges::equal(parameters(encoding, shape_), entry.weights, alike), model_,
               "encoding: ", encoding.name(), ", expected one that learns what ", entry.encoding.name(), " learned");
  entry.encoding = encoding;
  entry.kept = std::make_shared<Kept>();
}

void LayerPositions::make_plans(std::int64_t first, std::int64_t count, LayerPlans& to) const {
  to.first = first, to.count = count;
  to.plans.resize(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); i++) {
    const Entry& entry = entries_[i];
    std::optional<PlanInput> plan = entry.kept->find(first, count);
    if (!plan) {
      plan = lower(entry.encoding, entry.weights, {.queries = consecutive_positions(count, first), .shape = shape_});
      if (!learns(i)) entry.kept->keep(first, count, *plan);
    }
    to.plans[i] = *std::move(plan);
  }
}

void LayerPositions::backward(const LayerPlans& plans, std::span<const PlanGradient> gradients) {
  const Placement placement{.queries = consecutive_positions(plans.count, plans.first), .shape = shape_};
  for (std::size_t i = 0; i < entries_.size(); i++)
    if (learns(i) && (gradients[i].add || gradients[i].bias))
      lower_backward(entries_[i].encoding, entries_[i].weights, placement, gradients[i]);
}

// Sequences of one length share their positions. Tokens beyond the new ones of a sequence are padding: their positions
// stay below the length, which learned tables may end at.
LayerPlans LayerPositions::decoding_plans(std::span<const std::int64_t> firsts, std::int64_t count, std::int64_t length,
                                          CachedKeys keys) const {
  const bool same = std::ranges::adjacent_find(firsts, std::not_equal_to<>()) == firsts.end();
  Tensor<std::int64_t, 3> queries({1, same ? 1 : std::ssize(firsts), count});
  for (std::int64_t b = 0; b < queries.shape()[1]; b++)
    for (std::int64_t t = 0; t < count; t++)
      queries(0, b, t) = std::min(firsts[static_cast<std::size_t>(b)] + t, length - 1);
  Placement placement{.queries = std::move(queries), .shape = shape_};
  if (keys == CachedKeys::unrotated) {
    placement.keys = consecutive_positions(length);
  } else {  // Cached keys are already rotated: only the range of distances is needed, which the two ends give.
    Tensor<std::int64_t, 3> ends({1, 1, 2});
    ends(0, 0, 1) = length - 1;
    placement.keys = std::move(ends);
  }
  LayerPlans plans{.first = firsts[0], .count = count};
  for (const Entry& entry : entries_) plans.plans.emplace_back(lower(entry.encoding, entry.weights, placement));
  return plans;
}

// Whether token 1 is rotated by the same angles in a text of two tokens and in the longest.
CachedKeys LayerPositions::suitable_keys(std::int64_t capacity) const {
  const auto rotations = [&](std::int64_t length) {
    Tensor<std::int64_t, 3> keys({1, 1, 2});
    keys(0, 0, 1) = length - 1;
    const Placement placement{.queries = consecutive_positions(1, 1), .keys = std::move(keys), .shape = shape_};
    std::vector<std::optional<AnyRotaryTable>> tables;
    for (const Entry& entry : entries_) tables.push_back(lower(entry.encoding, entry.weights, placement).rotate_q);
    return tables;
  };
  const auto few = rotations(2), many = rotations(std::max<std::int64_t>(capacity, 2));
  for (std::size_t i = 0; i < few.size(); i++) {
    if (!few[i]) continue;
    const RotaryView a = *few[i], b = *many[i];
    const bool same = std::equal(a.cos.data, a.cos.data + a.pairs(), b.cos.data) &&
                      std::equal(a.sin.data, a.sin.data + a.pairs(), b.sin.data);
    if (!same) return CachedKeys::unrotated;
  }
  return CachedKeys::rotated;
}

}  // namespace phasor
