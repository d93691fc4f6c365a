// Keys and values in pages of some tokens each, so that sequences of any lengths share one pool of memory.
//
//   PagedKvCache cache(
//       {.batch = 8, .key_heads = 8, .pages = 1024, .page_size = 64, .channels = 128, .storage = CacheStorage::bf16});
//   cache.append(k, v, table);                              // takes the pages that it needs
//   attention_forward(q, cache, {.out = out.view()}, {.causal = true, .q_rotary = table});
//   cache.truncate(3, 0);                                   // sequence 3 is finished: its pages are free again
//
// Pools of other owners, as vLLM has them, are a KvPages. Results are the bits of a cache without pages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "phasor/attention/attention.h"
#include "phasor/attention/kv_cache.h"

namespace phasor {

// Keys and values of n sequences in pages. Outer strides are free, so a pool [pages, page size, G, D] is seen through
// transposed(1, 2).
template <CacheElement T>
struct KvPages {
  TensorView<const T, 4> keys{};    // [pages, G, page size, D]
  TensorView<const T, 4> values{};  // [pages, G, page size, E]
  // [n, pages of a sequence]: page i of sequence s has its tokens i * page size .. Entries past a sequence's last token
  // are not read. Sequences may share pages.
  TensorView<const std::int32_t, 2> block_table{};
  std::span<const std::int64_t> lengths{};  // [n], tokens of each sequence
  // [pages, G, page size], of int8 alone: a key is its scale * its numbers.
  TensorView<const float, 3> key_scales{}, value_scales{};
};

struct PagedKvCacheConfig {
  std::int64_t batch = 1, key_heads = 1;
  std::int64_t pages = 0;           // of the pool, for all sequences
  std::int64_t page_size = 64;      // tokens
  std::int64_t channels = 0;        // of a key, D
  std::int64_t value_channels = 0;  // E; 0: as many as of a key
  CachedKeys keys = CachedKeys::rotated;
  CacheStorage storage = CacheStorage::float32;
};

class PagedKvCache {
 public:
  // All memory is allocated here: pages * key_heads * page_size * (D + E) elements; for int8 also two floats
  // for each token and head.
  explicit PagedKvCache(const PagedKvCacheConfig& config);

  // As KvCache::append. If there are not enough free pages, the call throws and changes nothing.
  void append(const KvRows& k, const KvRows& v, const std::optional<RotaryView>& rotation = {},
              std::span<const std::int64_t> counts = {});

  // Sequence `to`, which must be empty, gets the first `length` tokens of sequence `from` without a copy. A page that
  // both have is copied when one of them appends to it.
  void share(std::int64_t from, std::int64_t to, std::int64_t length);

  // Removes the tokens of sequence b from `length` on, or all tokens of all sequences. Pages that no sequence has are
  // free again.
  void truncate(std::int64_t b, std::int64_t length);
  void clear();

  // Valid until the next change. T is the type of config().storage.
  template <CacheElement T>
  KvPages<T> pages() const& {
    constexpr const char* kName = "PagedKvCache::pages";
    return {keys_.view<T>(kName), values_.view<T>(kName), block_table(), lengths_,
            keys_.scales.view(),  values_.scales.view()};
  }
  template <CacheElement T>
  KvPages<T> pages() const&& = delete;
  // Page i of each sequence, as in KvPages.
  TensorView<const std::int32_t, 2> block_table() const& { return {table_.data(), {config_.batch, row_}}; }
  TensorView<const std::int32_t, 2> block_table() const&& = delete;
  std::span<const std::int64_t> lengths() const& { return lengths_; }  // tokens of each sequence
  std::span<const std::int64_t> lengths() const&& = delete;
  std::int64_t longest() const;
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  const PagedKvCacheConfig& config() const { return config_; }
  const detail::CacheRows& key_rows() const { return keys_; }
  const detail::CacheRows& value_rows() const { return values_; }

 private:
  std::int64_t pages_of(std::int64_t tokens) const;
  std::int32_t& page(std::size_t b, std::int64_t index);
  std::int32_t take_page();
  void release_page(std::int32_t page);
  bool ends_in_shared_page(std::size_t b);
  void widen(std::int64_t pages);
  std::int64_t pages_to_append(std::span<const std::int64_t> counts);
  void reserve(std::span<const std::int64_t> counts);
  void copy_last_page(std::size_t b);

  PagedKvCacheConfig config_;
  detail::CacheRows keys_, values_;  // [pages, G, page_size, channels]
  std::vector<std::int32_t> table_;  // [batch][row_]
  std::int64_t row_ = 0;             // grows with the longest sequence
  std::vector<std::int32_t> users_;  // of each page: how many sequences have it
  std::vector<std::int32_t> free_;   // pages without any
  std::vector<std::int64_t> lengths_;
};

// Attention to the tokens of sequences in pages. If the options do not give key_lengths and query_offsets, they follow
// from the lengths: the last query of a sequence is at its last token. S of masks, biases and k_rotary is the longest
// length.
//
// q is [n, H, T, D]; or, with options.query_starts, [1, H, T, D] with the queries of all n sequences one after the
// other, as many of each as there are. Such a call takes no mask, block_mask, key_bias, k_rotary or dropout, and gives
// no weights. Queries and results are of one type, and the cache or the pages of any.
template <CacheElement T>
void attention_forward(TensorView<const float, 4> q, const KvPages<T>& pages, const AttentionOutput<float>& output,
                       const AttentionOptions& options = {});
template <CacheElement T>
void attention_forward(TensorView<const bf16, 4> q, const KvPages<T>& pages, const AttentionOutput<bf16>& output,
                       const AttentionOptions& options = {});
template <CacheElement T>
void attention_forward(TensorView<const f16, 4> q, const KvPages<T>& pages, const AttentionOutput<f16>& output,
                       const AttentionOptions& options = {});
void attention_forward(TensorView<const float, 4> q, const PagedKvCache& cache, const AttentionOutput<float>& output,
                       const AttentionOptions& options = {});
void attention_forward(TensorView<const bf16, 4> q, const PagedKvCache& cache, const AttentionOutput<bf16>& output,
                       const AttentionOptions& options = {});
void attention_forward(TensorView<const f16, 4> q, const PagedKvCache& cache, const AttentionOutput<f16>& output,
                       const AttentionOptions& options = {});

}  // namespace phasor
