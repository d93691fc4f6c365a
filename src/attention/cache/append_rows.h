// New tokens of a cache: checked, rotated, rounded and stored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "call.h"
#include "phasor/attention/kv_cache.h"

namespace phasor::detail {

struct NewRows {
  AnyView k, v;
  std::optional<RotaryView> rotation;
  List<std::int64_t> counts;  // of each sequence

  // Throws naming `function` unless they fit a cache of this batch, heads and channels. Room is not checked.
  NewRows(const char* function, const KvCacheConfig& config, const KvRows& k_rows, const KvRows& v_rows,
          const std::optional<RotaryView>& table, std::span<const std::int64_t> given_counts);

  // Stores the tokens of sequence b from row lengths[b] on.
  void store(std::span<const std::int64_t> lengths, const AnyOutput& keys, const AnyOutput& values) const;
};

// The sizes that both kinds of caches have; value_channels filled in.
void check_cache_sizes(const char* function, KvCacheConfig& config);

// Throws unless b is a sequence and `length` at most what it has.
void check_truncation(const char* function, std::int64_t b, std::int64_t length, std::span<const std::int64_t> lengths);

}  // namespace phasor::detail
