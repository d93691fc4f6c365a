// Keys and values of all tokens so far, so that a new token costs one pass over them.
//
//   KvCache cache({.key_heads = 8, .capacity = 4096, .channels = 128, .storage = CacheStorage::bf16});
//   cache.append(k, v, table);                              // table: the rotations of the new tokens
//   attention_forward(q, cache, {.out = out.view()}, {.causal = true, .rotate_q = table});
//
// Wasserstein-2 attention takes two caches, one whose keys and values are the means, one with the spreads; only the
// first is given a rotation. w2_attention_forward reads their keys() and values() as streams, with key_lengths =
// lengths() of either.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

// How a cache stores numbers. All but int8 round each number once.
enum class CacheStorage {
  float32,
  bf16,
  f16,
  // A key or value x is 8-bit whole numbers n and a float, its scale: x is about scale * n. The scale is the largest
  // |x| / 127, and n is x / scale rounded to nearest, ties to even; so each number is off by at most half a scale. A
  // row of zeros has scale 0. A row with NaN or infinity has scale NaN, and reads as NaN in all channels.
  int8,
};

template <class T>
concept CacheElement = Element<T> || std::same_as<T, std::int8_t>;

struct KvCacheConfig {
  std::int64_t batch = 1, key_heads = 1;
  std::int64_t capacity = 0;        // tokens of each sequence
  std::int64_t channels = 0;        // of a key, D
  std::int64_t value_channels = 0;  // E; 0: as many as of a key
  CachedKeys keys = CachedKeys::rotated;
  CacheStorage storage = CacheStorage::float32;
};

namespace detail {

// Keys or values of a cache.
struct CacheRows {
  std::variant<Tensor<float, 4>, Tensor<bf16, 4>, Tensor<f16, 4>, Tensor<std::int8_t, 4>> numbers;
  Tensor<float, 3> scales;  // of int8, one for each row

  CacheRows(CacheStorage storage, const Shape<4>& shape);

  // Throws naming `function` unless T is the type of the numbers.
  template <CacheElement T>
  TensorView<const T, 4> view(const char* function) const {
    const auto* typed = std::get_if<Tensor<T, 4>>(&numbers);
    if (!typed) fail_type(function);
    return typed->view();
  }
  [[noreturn]] void fail_type(const char* function) const;
};

}  // namespace detail

// Keys or values to be added, of any type.
using KvRows = std::variant<TensorView<const float, 4>, TensorView<const bf16, 4>, TensorView<const f16, 4>>;

class KvCache {
 public:
  // All memory is allocated here: batch * key_heads * capacity * (D + E) elements; for int8 also two floats for each
  // token and head.
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
  // Valid until the next change. T is the type of config().storage.
  template <CacheElement T>
  TensorView<const T, 4> keys() const& {
    return keys_.view<T>("KvCache::keys").slice(2, 0, longest());
  }
  template <CacheElement T>
  TensorView<const T, 4> values() const& {
    return values_.view<T>("KvCache::values").slice(2, 0, longest());
  }
  // [B, G, S] of an int8 cache, without data of others.
  TensorView<const float, 3> key_scales() const&;
  TensorView<const float, 3> value_scales() const&;
  std::span<const std::int64_t> lengths() const& { return lengths_; }  // tokens of each sequence
  template <CacheElement T>
  TensorView<const T, 4> keys() const&& = delete;
  template <CacheElement T>
  TensorView<const T, 4> values() const&& = delete;
  TensorView<const float, 3> key_scales() const&& = delete;
  TensorView<const float, 3> value_scales() const&& = delete;
  std::span<const std::int64_t> lengths() const&& = delete;
  std::int64_t longest() const;
  const KvCacheConfig& config() const { return config_; }

  // Sequence b as it is stored, for files: the rows of its tokens, by head, of keys, values, and of their scales if
  // they are int8. The second function gives the sequence `length` tokens, whose rows the caller then writes.
  std::vector<std::span<const std::byte>> stored_rows(std::int64_t b) const&;
  std::vector<std::span<const std::byte>> stored_rows(std::int64_t b) const&& = delete;
  std::vector<std::span<std::byte>> replace_rows(std::int64_t b, std::int64_t length);

  const detail::CacheRows& key_rows() const { return keys_; }
  const detail::CacheRows& value_rows() const { return values_; }

 private:
  KvCacheConfig config_;
  detail::CacheRows keys_, values_;  // [B, G, capacity, channels]
  std::vector<std::int64_t> lengths_;
};

// Attention to the tokens of a cache, the new ones included: append them first. If the options do not give key_lengths
// and query_offsets, they follow from the lengths: the last of T queries is at the last token of its sequence. Queries
// and results are of one type, and the cache of any.
void attention_forward(TensorView<const float, 4> q, const KvCache& cache, const AttentionOutput<float>& output,
                       const AttentionOptions& options = {});
void attention_forward(TensorView<const bf16, 4> q, const KvCache& cache, const AttentionOutput<bf16>& output,
                       const AttentionOptions& options = {});
void attention_forward(TensorView<const f16, 4> q, const KvCache& cache, const AttentionOutput<f16>& output,
                       const AttentionOptions& options = {});

}  // namespace phasor
