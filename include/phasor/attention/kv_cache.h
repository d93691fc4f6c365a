// Keys and values of all tokens so far, so that a new token costs one pass over them.
//
//   KvCache<bf16> cache({.batch = 1, .key_heads = 8, .capacity = 4096, .channels = 128});
//   cache.append(k, v, table);                              // table: the rotations of the new tokens
//   attention_forward(q, cache, {.out = out.view()}, {.causal = true, .rotate_q = table});
//
// Wasserstein-2 attention takes two caches, one whose keys and values are the means, one with the spreads; only the
// first is given a rotation. w2_attention_forward reads their keys() and values() as streams, with key_lengths =
// lengths() of either.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "phasor/attention/attention.h"

namespace phasor {

enum class CachedKeys {
  rotated,  // each key is rotated once, when it is appended
  // Keys are stored unrotated, and rotated whenever they are read: options.rotate_k then has a row for every token of
  // the cache. This is for dynamic NTK and LongRoPE, whose angles change for all tokens when the text grows: keys
  // rotated for an earlier length would no longer match the queries.
  unrotated,
};

struct KvCacheConfig {
  std::int64_t batch = 1, key_heads = 1;
  std::int64_t capacity = 0;        // tokens of each sequence
  std::int64_t channels = 0;        // of a key, D
  std::int64_t value_channels = 0;  // E; 0: as many as of a key
  CachedKeys keys = CachedKeys::rotated;
};

// Keys or values to be added, of any type.
using KvRows = std::variant<TensorView<const float, 4>, TensorView<const bf16, 4>, TensorView<const f16, 4>>;

template <Element T>
class KvCache {
 public:
  // All memory is allocated here: batch * key_heads * capacity * (D + E) elements.
  explicit KvCache(const KvCacheConfig& config);

  // Adds tokens: k [B, G, n, D] and v [B, G, n, E], counts[b] <= n of sequence b (all n when no counts are given). Row
  // i of the rotation (for all sequences, or one of B) rotates new token i. Numbers are rounded once, after the
  // rotation. If a sequence has no room left, the call throws and changes nothing.
  void append(const KvRows& k, const KvRows& v, const std::optional<RotaryView>& rotation = {},
              std::span<const std::int64_t> counts = {});

  // Removes the tokens of sequence b from `length` on, or all tokens of all sequences.
  void truncate(std::int64_t b, std::int64_t length);
  void clear();

  // [B, G, S, D] and [B, G, S, E] with S the longest length; rows of a shorter sequence past its length are undefined.
  // Valid until the next change.
  TensorView<const T, 4> keys() const& { return keys_.view().slice(2, 0, longest()); }
  TensorView<const T, 4> values() const& { return values_.view().slice(2, 0, longest()); }
  std::span<const std::int64_t> lengths() const& { return lengths_; }  // tokens of each sequence
  TensorView<const T, 4> keys() const&& = delete;
  TensorView<const T, 4> values() const&& = delete;
  std::span<const std::int64_t> lengths() const&& = delete;
  std::int64_t longest() const;
  const KvCacheConfig& config() const { return config_; }

 private:
  KvCacheConfig config_;
  Tensor<T, 4> keys_, values_;  // [B, G, capacity, channels]
  std::vector<std::int64_t> lengths_;
};

extern template class KvCache<float>;
extern template class KvCache<bf16>;
extern template class KvCache<f16>;

// Attention to the tokens of a cache, the new ones included: append them first. If the options do not give key_lengths
// and query_offsets, they follow from the lengths: the last of T queries is at the last token of its sequence. Queries
// and results may be float with a cache of 16 bits.
template <Element T>
void attention_forward(TensorView<const float, 4> q, const KvCache<T>& cache, const AttentionOutput<float>& output,
                       const AttentionOptions& options = {});
template <Element T>
requires(!std::is_same_v<T, float>) void attention_forward(std::type_identity_t<TensorView<const T, 4>> q,
                                                           const KvCache<T>& cache, const AttentionOutput<T>& output,
                                                           const AttentionOptions& options = {});

}  // namespace phasor
