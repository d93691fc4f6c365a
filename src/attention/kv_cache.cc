#include "phasor/attention/kv_cache.h"

#include <algorithm>

#include "append_rows.h"
#include "call.h"
#include "check_shapes.h"
#include "phasor/core/check.h"

namespace phasor {
namespace {

constexpr const char* kAppend = "KvCache::append";

KvCacheConfig checked(KvCacheConfig config) {
  detail::check_cache_sizes("KvCache", config);
  PHASOR_CHECK(config.capacity >= 0, "KvCache", "capacity: ", config.capacity, ", expected at least 0");
  return config;
}

}  // namespace

template <Element T>
KvCache<T>::KvCache(const KvCacheConfig& config)
    : config_(checked(config)),
      keys_({config_.batch, config_.key_heads, config_.capacity, config_.channels}),
      values_({config_.batch, config_.key_heads, config_.capacity, config_.value_channels}),
      lengths_(static_cast<std::size_t>(config_.batch), 0) {}

template <Element T>
std::int64_t KvCache<T>::longest() const {
  return lengths_.empty() ? 0 : *std::ranges::max_element(lengths_);
}

template <Element T>
void KvCache<T>::append(const KvRows& k_rows, const KvRows& v_rows, const std::optional<RotaryView>& rotation,
                        std::span<const std::int64_t> counts) {
  const detail::NewRows rows(kAppend, config_, k_rows, v_rows, rotation, counts);
  for (std::size_t b = 0; b < lengths_.size(); b++)
    PHASOR_CHECK(rows.counts[b] <= config_.capacity - lengths_[b], kAppend, "capacity: ", config_.capacity,
                 " tokens, of which sequence ", b, " has ", lengths_[b], ", expected room for ", rows.counts[b],
                 " more");
  rows.store(lengths_, keys_.view(), values_.view());
  for (std::size_t b = 0; b < lengths_.size(); b++) lengths_[b] += rows.counts[b];
}

template <Element T>
void KvCache<T>::truncate(std::int64_t b, std::int64_t length) {
  detail::check_truncation("KvCache::truncate", b, length, lengths_);
  lengths_[static_cast<std::size_t>(b)] = length;
}

template <Element T>
void KvCache<T>::clear() {
  std::ranges::fill(lengths_, 0);
}

namespace {

template <class T, class U>
void forward(const TensorView<const U, 4>& q, const KvCache<T>& cache, const AttentionOutput<U>& output,
             const AttentionOptions& options) {
  constexpr const char* kFunction = "attention_forward";
  PHASOR_CHECK(options.query_starts.empty() && options.key_starts.empty(), kFunction,
               "query_starts, key_starts: given with a cache, expected none: its sequences have lengths of their own");
  PHASOR_CHECK(!options.k_rotary || cache.config().keys == CachedKeys::unrotated, kFunction,
               "k_rotary: given with a cache of rotated keys, expected none");
  AttentionOptions filled = options;
  detail::List<std::int64_t> offsets;
  for (const std::int64_t length : cache.lengths()) offsets.push_back(length - q.shape[2]);
  if (options.key_lengths.empty()) filled.key_lengths = cache.lengths();
  if (options.query_offsets.empty()) filled.query_offsets = offsets;
  const detail::AttentionCall call = detail::make_call(kFunction, q, cache.keys(), cache.values(), filled);
  const detail::ForwardOutput any{output.out, output.lse, output.softmax, output.weights};
  detail::check_forward(kFunction, call, any);
  detail::forward(call, any);
}

}  // namespace

template <Element T>
void attention_forward(TensorView<const float, 4> q, const KvCache<T>& cache, const AttentionOutput<float>& output,
                       const AttentionOptions& options) {
  forward(q, cache, output, options);
}
template <Element T>
requires(!std::is_same_v<T, float>) void attention_forward(std::type_identity_t<TensorView<const T, 4>> q,
                                                           const KvCache<T>& cache, const AttentionOutput<T>& output,
                                                           const AttentionOptions& options) {
  forward(q, cache, output, options);
}

template class KvCache<float>;
template class KvCache<bf16>;
template class KvCache<f16>;

template void attention_forward<float>(TensorView<const float, 4>, const KvCache<float>&, const AttentionOutput<float>&,
                                       const AttentionOptions&);
template void attention_forward<bf16>(TensorView<const float, 4>, const KvCache<bf16>&, const AttentionOutput<float>&,
                                      const AttentionOptions&);
template void attention_forward<f16>(TensorView<const float, 4>, const KvCache<f16>&, const AttentionOutput<float>&,
                                     const AttentionOptions&);
template void attention_forward<bf16>(TensorView<const bf16, 4>, const KvCache<bf16>&, const AttentionOutput<bf16>&,
                                      const AttentionOptions&);
template void attention_forward<f16>(TensorView<const f16, 4>, const KvCache<f16>&, const AttentionOutput<f16>&,
                                     const AttentionOptions&);

}  // namespace phasor
