#include "phasor/attention/kv_cache.h"

#include <algorithm>

#include "call.h"
#include "check_shapes.h"
#include "job.h"
#include "phasor/core/check.h"
#include "rows.h"
#include "scratch/scratch.h"

namespace phasor {
namespace {

constexpr const char* kAppend = "KvCache::append";
constexpr std::int64_t kRowsOfATask = 64;

KvCacheConfig checked(KvCacheConfig config) {
  const auto check = [](const char* name, std::int64_t value, std::int64_t least) {
    PHASOR_CHECK(value >= least, "KvCache", name, ": ", value, ", expected at least ", least);
  };
  check("batch", config.batch, 0);
  check("key_heads", config.key_heads, 1);
  check("capacity", config.capacity, 0);
  check("channels", config.channels, 1);
  check("value_channels", config.value_channels, 0);
  if (config.value_channels == 0) config.value_channels = config.channels;
  return config;
}

void check_rotation(const RotaryView& rotation, const KvCacheConfig& config, std::int64_t tokens) {
  const Shape<4>& shape = rotation.cos.shape;
  PHASOR_CHECK(config.keys == CachedKeys::rotated, kAppend,
               "rotation: given to a cache of unrotated keys, expected in options.k_rotary of attention");
  PHASOR_CHECK(shape == rotation.sin.shape, kAppend, "rotation: cos of shape ", shape_text(shape), " and sin of shape ",
               shape_text(rotation.sin.shape), ", expected the same");
  detail::check_rows(kAppend, "rotation.cos", shape, rotation.cos.strides);
  detail::check_rows(kAppend, "rotation.sin", shape, rotation.sin.strides);
  PHASOR_CHECK((shape[0] == 1 || shape[0] == config.batch) && (shape[1] == 1 || shape[1] == config.key_heads) &&
                   shape[2] >= tokens && 2 * shape[3] <= config.channels,
               kAppend, "rotation: shape ", shape_text(shape), ", expected 1 or ", config.batch, " sequences, 1 or ",
               config.key_heads, " heads, at least ", tokens, " tokens and at most ", config.channels, " / 2 pairs");
}

// The counts of each sequence, checked to fit.
detail::List<std::int64_t> checked_counts(std::span<const std::int64_t> counts, std::int64_t tokens,
                                          std::span<const std::int64_t> lengths, std::int64_t capacity) {
  PHASOR_CHECK(counts.empty() || counts.size() == lengths.size(), kAppend, "counts: ", counts.size(),
               " numbers, expected none or ", lengths.size(), ", one for each sequence");
  detail::List<std::int64_t> result(lengths.size(), tokens);
  for (std::size_t b = 0; b < lengths.size(); b++) {
    if (!counts.empty()) result[b] = counts[b];
    PHASOR_CHECK(result[b] >= 0 && result[b] <= tokens, kAppend, "counts: ", result[b], " for sequence ", b,
                 ", expected 0 to ", tokens, ", the tokens given");
    PHASOR_CHECK(result[b] <= capacity - lengths[b], kAppend, "capacity: ", capacity, " tokens, of which sequence ", b,
                 " has ", lengths[b], ", expected room for ", result[b], " more");
  }
  return result;
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
  const auto erased = [](const auto& rows) { return detail::AnyView(rows); };
  const detail::AnyView k = std::visit(erased, k_rows), v = std::visit(erased, v_rows);
  const std::int64_t tokens = k.shape[2], heads = config_.key_heads;
  detail::check_shape(kAppend, "k", k.shape, {config_.batch, heads, tokens, config_.channels}, "[B, G, n, D]");
  detail::check_shape(kAppend, "v", v.shape, {config_.batch, heads, tokens, config_.value_channels}, "[B, G, n, E]");
  detail::check_rows(kAppend, "k", k.shape, k.strides);
  detail::check_rows(kAppend, "v", v.shape, v.strides);
  if (rotation) check_rotation(*rotation, config_, tokens);
  const detail::List<std::int64_t> added = checked_counts(counts, tokens, lengths_, config_.capacity);

  const std::int64_t blocks = (tokens + kRowsOfATask - 1) / kRowsOfATask;
  const detail::AnyOutput all_keys(keys_.view()), all_values(values_.view());
  // To copy and rotate a number takes about as long as eight multiplications.
  const std::int64_t work = 8 * config_.batch * heads * tokens * (config_.channels + config_.value_channels);
  detail::run_tasks(config_.batch * heads * blocks, work, [&](std::int64_t task) {
    const std::int64_t first = task % blocks * kRowsOfATask, head = task / blocks, b = head / heads, g = head % heads;
    const auto at = static_cast<std::size_t>(b);
    const std::int64_t count = std::min(kRowsOfATask, added[at] - first), row = lengths_[at] + first;
    if (count <= 0) return;
    const auto copy = [&](const detail::AnyView& from, const std::optional<RotaryView>& rotation_of_rows,
                          const detail::AnyOutput& to) {
      const std::int64_t channels = from.shape[3];
      detail::Arena arena;
      float* rows = arena.take(static_cast<std::size_t>(count * channels));
      detail::read_rows(from, b, g, first, count, rotation_of_rows, rows, channels);
      detail::write_rows(to, b, g, row, count, rows, channels);
    };
    copy(k, rotation, all_keys);
    copy(v, std::nullopt, all_values);
  });
  for (std::size_t b = 0; b < lengths_.size(); b++) lengths_[b] += added[b];
}

template <Element T>
void KvCache<T>::truncate(std::int64_t b, std::int64_t length) {
  PHASOR_CHECK(b >= 0 && b < config_.batch, "KvCache::truncate", "b: ", b, ", expected 0 to ", config_.batch - 1);
  std::int64_t& kept = lengths_[static_cast<std::size_t>(b)];
  PHASOR_CHECK(length >= 0 && length <= kept, "KvCache::truncate", "length: ", length, ", expected 0 to ", kept,
               ", the length of sequence ", b);
  kept = length;
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
