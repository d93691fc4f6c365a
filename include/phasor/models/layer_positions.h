// The position encodings of a model: which layer has which, what they learn, and the plans of a call.
//
// A plan belongs to a layer, and layers of one encoding share it. Plans are numbered: 0 is that of the model's
// encoding, which all layers have that are not named elsewhere, then follow those of the model's LayerEncodings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "phasor/attention/kv_cache.h"
#include "phasor/core/weight.h"
#include "phasor/position/encoding.h"

namespace phasor {

// Layers that have another encoding than the model: layers without one (NoPE), or local layers with a theta of their
// own. It acts on q and k or on scores: what is added to token embeddings is the model's.
struct LayerEncoding {
  std::vector<std::int64_t> layers = {};  // from 0
  EncodingConfig encoding = NoneConfig{};
};

// The plans of consecutive tokens. Copies share them.
struct LayerPlans {
  std::int64_t first = 0, count = 0;  // the tokens' positions: first, first + 1, ...
  std::vector<PlanInput> plans = {};
};

class LayerPositions {
 public:
  // Weights are drawn from `seed`. Errors name `model`.
  LayerPositions(const char* model, const ModelShape& shape, const EncodingConfig& encoding,
                 std::span<const LayerEncoding> others, std::uint64_t seed);

  std::size_t plan_of(std::int64_t layer) const;  // its number
  std::size_t count() const { return entries_.size(); }
  bool learns(std::size_t plan) const { return phasor::learns(entries_[plan].encoding); }
  void list_weights(NamedWeights& weights);  // positions.NAME, then layer_positions.0.NAME, ...

  // The same weights with other settings. Those must learn as much.
  void set_encoding(std::size_t plan, const EncodingConfig& encoding);

  // Plans of tokens that see each other. The plan of an encoding that learns nothing is kept for the next call: steps
  // of a training have the same positions. It may be called by several threads.
  void make_plans(std::int64_t first, std::int64_t count, LayerPlans& to) const;
  // Adds what the plans' gradients make of the weights. A plan whose gradient is empty has no layer that uses it.
  void backward(const LayerPlans& plans, std::span<const PlanGradient> gradients);

  // Decoding: plans of new tokens of each sequence, the first of which is at firsts[b]. They see all tokens before
  // them, whose keys are cached; the longest sequence will have `length`.
  LayerPlans decoding_plans(std::span<const std::int64_t> firsts, std::int64_t count, std::int64_t length,
                            CachedKeys keys) const;
  // How keys must be kept for texts up to this length: unrotated where their angles change when the text grows.
  CachedKeys suitable_keys(std::int64_t capacity) const;

 private:
  class Kept;
  struct Entry {
    EncodingConfig encoding;
    std::vector<std::int64_t> layers;
    std::vector<Weight> weights;
    std::shared_ptr<Kept> kept;  // of this encoding, so copies of the model may share it
  };

  const char* model_;  // a literal
  ModelShape shape_;
  std::vector<Entry> entries_;
};

}  // namespace phasor
