#include "cache/append_rows.h"

#include <algorithm>

#include "check_shapes.h"
#include "job.h"
#include "phasor/core/check.h"
#include "rows.h"

namespace phasor::detail {
namespace {

constexpr std::int64_t kRowsOfATask = 64;

AnyView erased(const KvRows& rows) {
  return std::visit([](const auto& view) { return AnyView(view); }, rows);
}

void check_rotation(const char* function, const RotaryView& rotation, const KvCacheConfig& config,
                    std::int64_t tokens) {
  const Shape<4>& shape = rotation.cos.shape;
  PHASOR_CHECK(config.keys == CachedKeys::rotated, function,
               "rotation: given to a cache of unrotated keys, expected in options.k_rotary of attention");
  PHASOR_CHECK(shape == rotation.sin.shape, function, "rotation: cos of shape ", shape_text(shape),
               " and sin of shape ", shape_text(rotation.sin.shape), ", expected the same");
  check_rows(function, "rotation.cos", shape, rotation.cos.strides);
  check_rows(function, "rotation.sin", shape, rotation.sin.strides);
  PHASOR_CHECK((shape[0] == 1 || shape[0] == config.batch) && (shape[1] == 1 || shape[1] == config.key_heads) &&
                   shape[2] >= tokens && 2 * shape[3] <= config.channels,
               function, "rotation: shape ", shape_text(shape), ", expected 1 or ", config.batch, " sequences, 1 or ",
               config.key_heads, " heads, at least ", tokens, " tokens and at most ", config.channels, " / 2 pairs");
}

List<std::int64_t> checked_counts(const char* function, std::span<const std::int64_t> counts, std::int64_t tokens,
                                  std::int64_t batch) {
  const auto sequences = static_cast<std::size_t>(batch);
  PHASOR_CHECK(counts.empty() || counts.size() == sequences, function, "counts: ", counts.size(),
               " numbers, expected none or ", sequences, ", one for each sequence");
  List<std::int64_t> result(sequences, tokens);
  std::ranges::copy(counts, result.begin());
  for (std::size_t b = 0; b < sequences; b++)
    PHASOR_CHECK(result[b] >= 0 && result[b] <= tokens, function, "counts: ", result[b], " for sequence ", b,
                 ", expected 0 to ", tokens, ", the tokens given");
  return result;
}

}  // namespace

NewRows::NewRows(const char* function, const KvCacheConfig& config, const KvRows& k_rows, const KvRows& v_rows,
                 const std::optional<RotaryView>& table, std::span<const std::int64_t> given_counts)
    : k(erased(k_rows)), v(erased(v_rows)), rotation(table) {
  const std::int64_t tokens = k.shape[2];
  check_shape(function, "k", k.shape, {config.batch, config.key_heads, tokens, config.channels}, "[B, G, n, D]");
  check_shape(function, "v", v.shape, {config.batch, config.key_heads, tokens, config.value_channels}, "[B, G, n, E]");
  check_rows(function, "k", k.shape, k.strides);
  check_rows(function, "v", v.shape, v.strides);
  if (rotation) check_rotation(function, *rotation, config, tokens);
  counts = checked_counts(function, given_counts, tokens, config.batch);
}

void NewRows::store(std::span<const std::int64_t> lengths, const AnyOutput& keys, const AnyOutput& values) const {
  const std::int64_t batch = k.shape[0], heads = k.shape[1], tokens = k.shape[2];
  const std::int64_t blocks = (tokens + kRowsOfATask - 1) / kRowsOfATask;
  // To copy and rotate a number takes about as long as eight multiplications.
  const std::int64_t work = 8 * batch * heads * tokens * (k.shape[3] + v.shape[3]);
  run_tasks(batch * heads * blocks, work, [&](std::int64_t task) {
    const std::int64_t first = task % blocks * kRowsOfATask, head = task / blocks, b = head / heads, g = head % heads;
    const auto at = static_cast<std::size_t>(b);
    const std::int64_t count = std::min(kRowsOfATask, counts[at] - first), row = lengths[at] + first;
    if (count <= 0) return;
    const auto copy = [&](const AnyView& from, const std::optional<RotaryView>& rotation_of_rows, const AnyOutput& to) {
      const std::int64_t channels = from.shape[3];
      Arena arena;
      float* rows = arena.take(static_cast<std::size_t>(count * channels));
      read_rows(from, b, g, first, count, rotation_of_rows, rows, channels);
      write_rows(to, b, g, row, count, rows, channels);
    };
    copy(k, rotation, keys);
    copy(v, std::nullopt, values);
  });
}

void check_cache_sizes(const char* function, KvCacheConfig& config) {
  const auto check = [&](const char* name, std::int64_t value, std::int64_t least) {
    PHASOR_CHECK(value >= least, function, name, ": ", value, ", expected at least ", least);
  };
  check("batch", config.batch, 0);
  check("key_heads", config.key_heads, 1);
  check("channels", config.channels, 1);
  check("value_channels", config.value_channels, 0);
  if (config.value_channels == 0) config.value_channels = config.channels;
}

void check_truncation(const char* function, std::int64_t b, std::int64_t length,
                      std::span<const std::int64_t> lengths) {
  const auto batch = static_cast<std::int64_t>(lengths.size());
  PHASOR_CHECK(b >= 0 && b < batch, function, "b: ", b, ", expected 0 to ", batch - 1);
  const std::int64_t kept = lengths[static_cast<std::size_t>(b)];
  PHASOR_CHECK(length >= 0 && length <= kept, function, "length: ", length, ", expected 0 to ", kept,
               ", the length of sequence ", b);
}

}  // namespace phasor::detail
