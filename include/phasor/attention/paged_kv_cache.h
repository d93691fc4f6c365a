// Keys and values in pages of some tokens each, so that sequences of any lengths share one pool of memory.
//
//   PagedKvCache<bf16> cache({.batch = 8, .key_heads = 8, .pages = 1024, .page_size = 64, .channels = 128});
//   cache.append(k, v, table);                              // takes the pages that it needs
//   attention_forward(q, cache, {.out = out.view()}, {.causal = true, .q_rotary = table});
//   cache.truncate(3, 0);                                   // sequence 3 is finished: its pages are free again
//
// Pools of other owners, as vLLM has them, are a KvPages. Results are the bits of a cache without pages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "phasor/attention/attention.h"
#include "phasor/attention/kv_cache.h"

namespace phasor {

// Keys and values of n sequences in pages. Outer strides are free, so a pool [pages, page size, G, D] is seen through
// transposed(1, 2).
template <Element T>
struct KvPages {
  TensorView<const T, 4> keys{};    // [pages, G, page size, D]
  TensorView<const T, 4> values{};  // [pages, G, page size, E]
  // [n, pages of a sequence]: page i of sequence s has its tokens i * page size .. Entries past a sequence's last token
  // are not read. Sequences may share pages.
  TensorView<const std::int32_t, 2> block_table{};
  std::span<const std::int64_t> lengths{};  // [n], tokens of each sequence
};

struct PagedKvCacheConfig {
  std::int64_t batch = 1, key_heads = 1;
  std::int64_t pages = 0;           // of the pool, for all sequences
  std::int64_t page_size = 64;      // tokens
  std::int64_t channels = 0;        // of a key, D
  std::int64_t value_channels = 0;  // E; 0: as many as of a key
  CachedKeys keys = CachedKeys::rotated;
};

template <Element T>
class PagedKvCache {
 public:
  // All memory is allocated here: pages * key_heads * page_size * (D + E) elements.
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

  // Valid until the next change.
  KvPages<T> pages() const&;
  KvPages<T> pages() const&& = delete;
  std::span<const std::int64_t> lengths() const& { return lengths_; }  // tokens of each sequence
  std::span<const std::int64_t> lengths() const&& = delete;
  std::int64_t longest() const;
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  const PagedKvCacheConfig& config() const { return config_; }

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
  Tensor<T, 4> keys_, values_;       // [pages, G, page_size, channels]
  std::vector<std::int32_t> table_;  // [batch][row_]
  std::int64_t row_ = 0;             // grows with the longest sequence
  std::vector<std::int32_t> users_;  // of each page: how many sequences have it
  std::vector<std::int32_t> free_;   // pages without any
  std::vector<std::int64_t> lengths_;
};

extern template class PagedKvCache<float>;
extern template class PagedKvCache<bf16>;
extern template class PagedKvCache<f16>;

// Attention to the tokens of sequences in pages. If the options do not give key_lengths and query_offsets, they follow
// from the lengths: the last query of a sequence is at its last token. S of masks, biases and k_rotary is the longest
// length.
//
// q is [n, H, T, D]; or, with options.query_starts, [1, H, T, D] with the queries of all n sequences one after the
// other, as many of each as there are. Such a call takes no mask, block_mask, key_bias, k_rotary or dropout, and gives
// no weights.
template <Element T>
void attention_forward(TensorView<const float, 4> q, const KvPages<T>& pages, const AttentionOutput<float>& output,
                       const AttentionOptions& options = {});
template <Element T>
requires(!std::is_same_v<T, float>) void attention_forward(std::type_identity_t<TensorView<const T, 4>> q,
                                                           const KvPages<T>& pages, const AttentionOutput<T>& output,
                                                           const AttentionOptions& options = {});
template <Element T>
void attention_forward(TensorView<const float, 4> q, const PagedKvCache<T>& cache, const AttentionOutput<float>& output,
                       const AttentionOptions& options = {});
template <Element T>
requires(!std::is_same_v<T, float>) void attention_forward(std::type_identity_t<TensorView<const T, 4>> q,
                                                           const PagedKvCache<T>& cache,
                                                           const AttentionOutput<T>& output,
                                                           const AttentionOptions& options = {});

}  // namespace phasor
