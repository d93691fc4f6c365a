#include "phasor/layers/layer_cache.h"

namespace phasor {

std::span<const std::int64_t> LayerCache::lengths() const { return mu.lengths(); }

std::int64_t LayerCache::longest() const { return mu.longest(); }

CachedKeys LayerCache::keys() const { return mu.config().keys; }

void LayerCache::truncate(std::int64_t b, std::int64_t length) {
  mu.truncate(b, length);
  if (log_sigma) log_sigma->truncate(b, length);
}

void LayerCache::clear() {
  mu.clear();
  if (log_sigma) log_sigma->clear();
}

KvCache make_kv_cache(const LayerCacheConfig& config, std::int64_t key_heads, std::int64_t head_dim) {
  return KvCache({.batch = config.batch,
                  .key_heads = key_heads,
                  .capacity = config.capacity,
                  .channels = head_dim,
                  .keys = config.keys,
                  .storage = config.storage});
}

}  // namespace phasor
