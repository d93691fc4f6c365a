#include "phasor/attention/kv_cache.h"

#include <algorithm>

#include "cache/append_rows.h"
#include "cache/cache_rows.h"
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

KvCache::KvCache(const KvCacheConfig& config)
    : config_(checked(config)),
      keys_(config_.storage, {config_.batch, config_.key_heads, config_.capacity, config_.channels}),
      values_(config_.storage, {config_.batch, config_.key_heads, config_.capacity, config_.value_channels}),
      lengths_(static_cast<std::size_t>(config_.batch), 0) {}

std::int64_t KvCache::longest() const { return lengths_.empty() ? 0 : *std::ranges::max_element(lengths_); }

void KvCache::append(const KvRows& k_rows, const KvRows& v_rows, const std::optional<RotaryView>& rotation,
                     std::span<const std::int64_t> counts) {
  const detail::NewRows rows(kAppend, config_, k_rows, v_rows, rotation, counts);
  for (std::size_t b = 0; b < lengths_.size(); b++)
    PHASOR_CHECK(rows.counts[b] <= config_.capacity - lengths_[b], kAppend, "capacity: ", config_.capacity,
                 " tokens, of which sequence ", b, " has ", lengths_[b], ", expected room for ", rows.counts[b],
                 " more");
  rows.store(lengths_, detail::any_output(keys_), detail::any_output(values_));
  for (std::size_t b = 0; b < lengths_.size(); b++) lengths_[b] += rows.counts[b];
}

void KvCache::truncate(std::int64_t b, std::int64_t length) {
  detail::check_truncation("KvCache::truncate", b, length, lengths_);
  lengths_[static_cast<std::size_t>(b)] = length;
}

namespace {

// The bytes of the first `length` rows of each head of sequence b.
template <class Byte, class Tensor>
void list_rows(Tensor& rows, std::int64_t b, std::int64_t length, std::vector<std::span<Byte>>& to) {
  const auto& view = rows.view();
  const std::int64_t row = view.strides[2];
  for (std::int64_t g = 0; g < view.shape[1]; g++) {
    auto* first = view.data + b * view.strides[0] + g * view.strides[1];
    to.emplace_back(reinterpret_cast<Byte*>(first), static_cast<std::size_t>(length * row) * sizeof(*first));
  }
}

template <class Byte, class Rows>
void list_cache_rows(Rows& rows, std::int64_t b, std::int64_t length, std::vector<std::span<Byte>>& to) {
  std::visit([&](auto& numbers) { list_rows<Byte>(numbers, b, length, to); }, rows.numbers);
  if (rows.scales.size() > 0) list_rows<Byte>(rows.scales, b, length, to);
}

}  // namespace

std::vector<std::span<const std::byte>> KvCache::stored_rows(std::int64_t b) const& {
  PHASOR_CHECK(b >= 0 && b < config_.batch, "KvCache::stored_rows", "b: ", b, ", expected 0 to ", config_.batch - 1);
  std::vector<std::span<const std::byte>> rows;
  const std::int64_t length = lengths_[static_cast<std::size_t>(b)];
  list_cache_rows<const std::byte>(keys_, b, length, rows);
  list_cache_rows<const std::byte>(values_, b, length, rows);
  return rows;
}

std::vector<std::span<std::byte>> KvCache::replace_rows(std::int64_t b, std::int64_t length) {
  constexpr const char* kFunction = "KvCache::replace_rows";
  PHASOR_CHECK(b >= 0 && b < config_.batch, kFunction, "b: ", b, ", expected 0 to ", config_.batch - 1);
  PHASOR_CHECK(length >= 0 && length <= config_.capacity, kFunction, "length: ", length, ", expected 0 to ",
               config_.capacity);
  std::vector<std::span<std::byte>> rows;
  list_cache_rows<std::byte>(keys_, b, length, rows);
  list_cache_rows<std::byte>(values_, b, length, rows);
  lengths_[static_cast<std::size_t>(b)] = length;
  return rows;
}

void KvCache::clear() { std::ranges::fill(lengths_, 0); }

TensorView<const float, 3> KvCache::key_scales() const& {
  return keys_.scales.view().slice(2, 0, keys_.scales.size() > 0 ? longest() : 0);
}
TensorView<const float, 3> KvCache::value_scales() const& {
  return values_.scales.view().slice(2, 0, values_.scales.size() > 0 ? longest() : 0);
}

namespace {

// The rows of all tokens.
detail::AnyView tokens_of(const detail::CacheRows& rows, std::int64_t tokens) {
  detail::AnyView view = detail::any_view(rows);
  view.shape[2] = tokens;
  return view;
}

template <class T>
void forward(const TensorView<const T, 4>& q, const KvCache& cache, const AttentionOutput<T>& output,
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
  const std::int64_t tokens = cache.longest();
  const detail::AttentionCall call = detail::make_call(kFunction, q, tokens_of(cache.key_rows(), tokens),
                                                       tokens_of(cache.value_rows(), tokens), filled);
  const detail::ForwardOutput any{output.out, output.lse, output.softmax, output.weights};
  detail::check_forward(kFunction, call, any);
  detail::forward(call, any);
}

}  // namespace

void attention_forward(TensorView<const float, 4> q, const KvCache& cache, const AttentionOutput<float>& output,
                       const AttentionOptions& options) {
  forward(q, cache, output, options);
}
void attention_forward(TensorView<const bf16, 4> q, const KvCache& cache, const AttentionOutput<bf16>& output,
                       const AttentionOptions& options) {
  forward(q, cache, output, options);
}
void attention_forward(TensorView<const f16, 4> q, const KvCache& cache, const AttentionOutput<f16>& output,
                       const AttentionOptions& options) {
  forward(q, cache, output, options);
}

}  // namespace phasor
