// What a layer remembers of the tokens it has read, for decoding: keys and values, and for Gaussian tokens those of
// both streams. Layers make it (make_cache) and add to it (decode).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "phasor/attention/kv_cache.h"

namespace phasor {

struct LayerCacheConfig {
  std::int64_t batch = 1;
  std::int64_t capacity = 0;  // tokens of each sequence
  CacheStorage storage = CacheStorage::float32;
  CachedKeys keys = CachedKeys::rotated;  // unrotated: for dynamic NTK and LongRoPE
};

struct LayerCache {
  KvCache mu;
  std::optional<KvCache> log_sigma{};  // keys: sigma = exp(log_sigma / 2); values: log_sigma
  std::optional<KvCache> states{};     // of an encoder, which cross-attention reads

  std::span<const std::int64_t> lengths() const;
  std::int64_t longest() const;
  CachedKeys keys() const;
  void truncate(std::int64_t b, std::int64_t length);
  void clear();
};

KvCache make_kv_cache(const LayerCacheConfig& config, std::int64_t key_heads, std::int64_t head_dim);

}  // namespace phasor
