#include "phasor/layers/layer_cache.h"

namespace phasor {

std::span<const std::int64_t> LayerCache::lengths() const {
  return std::visit([](const auto& cache) { return cache.lengths(); }, mu);
}

std::int64_t LayerCache::longest() const {
  return std::visit([](const auto& cache) { return cache.longest(); }, mu);
}

CachedKeys LayerCache::keys() const {
  return std::visit([](const auto& cache) { return cache.config().keys; }, mu);
}

void LayerCache::truncate(std::int64_t b, std::int64_t length) {
  const auto each = [&](auto& cache) { cache.truncate(b, length); };
  std::visit(each, mu);
  if (log_sigma) std::visit(each, *log_sigma);
}

void LayerCache::clear() {
  const auto each = [](auto& cache) { cache.clear(); };
  std::visit(each, mu);
  if (log_sigma) std::visit(each, *log_sigma);
}

AnyKvCache make_kv_cache(const LayerCacheConfig& config, std::int64_t key_heads, std::int64_t head_dim) {
  const KvCacheConfig cache{.batch = config.batch,
                            .key_heads = key_heads,
                            .capacity = config.capacity,
                            .channels = head_dim,
                            .keys = config.keys};
  switch (config.storage) {
    case CacheStorage::bf16:
      return KvCache<bf16>(cache);
    case CacheStorage::f16:
      return KvCache<f16>(cache);
    case CacheStorage::float32:
      break;
  }
  return KvCache<float>(cache);
}

}  // namespace phasor
