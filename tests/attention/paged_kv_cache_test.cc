// PagedKvCache: the bits of a KvCache, and pages that are taken, shared and given back.
#include "phasor/attention/paged_kv_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "attention/tensors.h"
#include "phasor/position/rope.h"
#include "phasor/position/rotary.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

constexpr std::int64_t kBatch = 2, kGroups = 2, kHeads = 4, kWidth = 16, kValueWidth = 12;

Tensors text(std::int64_t tokens) {
  return Tensors({.batch = kBatch,
                  .heads = kHeads,
                  .groups = kGroups,
                  .queries = tokens,
                  .keys = tokens,
                  .width = kWidth,
                  .value_width = kValueWidth});
}

PagedKvCacheConfig config(std::int64_t pages, std::int64_t page_size, CacheStorage storage = CacheStorage::float32) {
  return {.batch = kBatch,
          .key_heads = kGroups,
          .pages = pages,
          .page_size = page_size,
          .channels = kWidth,
          .value_channels = kValueWidth,
          .storage = storage};
}
KvCacheConfig config(std::int64_t capacity, CacheStorage storage = CacheStorage::float32) {
  return {.batch = kBatch,
          .key_heads = kGroups,
          .capacity = capacity,
          .channels = kWidth,
          .value_channels = kValueWidth,
          .storage = storage};
}

TensorView<const float, 4> tokens_of(const Tensor<float, 4>& x, std::int64_t first, std::int64_t count) {
  return x.view().slice(2, first, count);
}

// Row `j` of sequence b.
const float* key_of(const PagedKvCache& cache, std::int64_t b, std::int64_t j) {
  const KvPages<float> pages = cache.pages<float>();
  const std::int64_t size = cache.config().page_size;
  return &pages.keys(pages.block_table(b, j / size), 1, j % size, 0);
}

class PagedKvCacheOf : public testing::TestWithParam<CacheStorage> {};
INSTANTIATE_TEST_SUITE_P(Storage, PagedKvCacheOf,
                         testing::Values(CacheStorage::float32, CacheStorage::bf16, CacheStorage::f16,
                                         CacheStorage::int8));

// A prompt, then token by token, with and without a rotation; queries of one token and of many.
TEST_P(PagedKvCacheOf, GivesTheBitsOfACacheWithoutPages) {
  constexpr std::int64_t kTokens = 150, kPrompt = 131;
  const Tensors t = text(kTokens);
  const RopeConfig rope{.head_dim = kWidth};
  for (const std::int64_t page_size : {1, 16, 50, 256}) {
    PagedKvCache paged(config(2 * (kTokens / page_size + 1), page_size, GetParam()));
    KvCache plain(config(kTokens, GetParam()));
    const auto step = [&](std::int64_t first, std::int64_t count) {
      const AnyRotaryTable table = rotary_table(rope, consecutive_positions(count, first), kTokens);
      Tensor<float, 4> expected({kBatch, kHeads, count, kValueWidth}), out(expected.shape());
      plain.append(tokens_of(t.k, first, count), tokens_of(t.v, first, count), table);
      paged.append(tokens_of(t.k, first, count), tokens_of(t.v, first, count), table);
      const AttentionOptions options{.causal = true, .q_rotary = table};
      attention_forward(tokens_of(t.q, first, count), plain, {.out = expected.view()}, options);
      attention_forward(tokens_of(t.q, first, count), paged, {.out = out.view()}, options);
      EXPECT_TRUE(same_bits(expected, out)) << "tokens from " << first << ", pages of " << page_size;
    };
    step(0, kPrompt);
    for (std::int64_t i = kPrompt; i < kTokens; i++) step(i, 1);
  }
}

TEST(PagedKvCache, SequencesHaveLengthsOfTheirOwn) {
  const Tensors t = text(7);
  PagedKvCache paged(config(6, 3));
  KvCache plain(config(12));
  const std::int64_t first[] = {7, 2}, second[] = {0, 5};
  for (const auto& counts : {first, second}) {
    paged.append(t.k.view(), t.v.view(), {}, {counts, 2});
    plain.append(t.k.view(), t.v.view(), {}, {counts, 2});
  }
  EXPECT_EQ(paged.free_pages(), 0);
  EXPECT_EQ(paged.longest(), 7);
  paged.truncate(0, 3), plain.truncate(0, 3);
  EXPECT_EQ(paged.free_pages(), 2);
  Tensor<float, 4> out({kBatch, kHeads, 2, kValueWidth}), expected(out.shape());
  attention_forward(tokens_of(t.q, 5, 2), paged, {.out = out.view()}, {.causal = true});
  attention_forward(tokens_of(t.q, 5, 2), plain, {.out = expected.view()}, {.causal = true});
  EXPECT_TRUE(same_bits(out, expected));
  paged.clear();
  EXPECT_EQ(paged.free_pages(), 6);
  attention_forward(tokens_of(t.q, 5, 2), paged, {.out = out.view()});
  expect_all(out, 0.0f);
}

TEST(PagedKvCache, WithoutFreePagesItSaysSoAndStaysAsItWas) {
  const Tensors t = text(7);
  PagedKvCache cache(config(5, 3, CacheStorage::bf16));
  const std::int64_t counts[] = {7, 2};
  cache.append(t.k.view(), t.v.view(), {}, counts);
  EXPECT_ERROR(cache.append(tokens_of(t.k, 0, 3), tokens_of(t.v, 0, 3)), "[PagedKvCache::append] pages: 1 of 5",
               "expected the 2");
  EXPECT_EQ(cache.free_pages(), 1);
  EXPECT_EQ(cache.lengths()[0], 7);
  cache.append(tokens_of(t.k, 0, 2), tokens_of(t.v, 0, 2));
  EXPECT_EQ(cache.free_pages(), 0);
}

// Shared pages are stored once; a page that both have is copied when one of them goes on in it.
TEST(PagedKvCache, SharedTokens) {
  const Tensors t = text(8);
  PagedKvCache cache(config(4, 3));
  const std::int64_t only_first[] = {7, 0}, only_second[] = {0, 1}, both[] = {1, 1};
  cache.append(tokens_of(t.k, 0, 7), tokens_of(t.v, 0, 7), {}, only_first);
  cache.share(0, 1, 5);  // a page, and two tokens of the next
  EXPECT_EQ(cache.free_pages(), 1);
  EXPECT_EQ(cache.lengths()[1], 5);
  EXPECT_EQ(key_of(cache, 0, 4), key_of(cache, 1, 4));
  cache.append(tokens_of(t.k, 7, 1), tokens_of(t.v, 7, 1), {}, only_second);
  EXPECT_EQ(cache.free_pages(), 0);
  EXPECT_EQ(key_of(cache, 0, 2), key_of(cache, 1, 2));
  EXPECT_NE(key_of(cache, 0, 4), key_of(cache, 1, 4));
  EXPECT_EQ(*key_of(cache, 1, 4), t.k(0, 1, 4, 0));
  EXPECT_EQ(*key_of(cache, 1, 5), t.k(1, 1, 7, 0));
  EXPECT_EQ(*key_of(cache, 0, 5), t.k(0, 1, 5, 0));
  cache.truncate(0, 0);
  EXPECT_EQ(cache.free_pages(), 2);  // the first page is the other's too
  EXPECT_EQ(*key_of(cache, 1, 0), t.k(0, 1, 0, 0));

  // Both go on in a page that both have: one of them keeps it.
  cache.truncate(1, 5);
  cache.share(1, 0, 5);
  EXPECT_EQ(cache.free_pages(), 2);
  cache.append(tokens_of(t.k, 7, 1), tokens_of(t.v, 7, 1), {}, both);
  EXPECT_EQ(cache.free_pages(), 1);
  for (std::int64_t b = 0; b < kBatch; b++) EXPECT_EQ(*key_of(cache, b, 5), t.k(b, 1, 7, 0));
  cache.clear();
  EXPECT_EQ(cache.free_pages(), 4);
}

TEST(PagedKvCache, BadInput) {
  const Tensors t = text(4);
  EXPECT_ERROR(PagedKvCache({.pages = -1, .channels = 4}), "[PagedKvCache] pages: -1");
  EXPECT_ERROR(PagedKvCache({.pages = 2, .page_size = 0, .channels = 4}), "[PagedKvCache] page_size: 0");
  EXPECT_ERROR(PagedKvCache({.pages = 2}), "[PagedKvCache] channels: 0");
  PagedKvCache cache(config(4, 2));
  EXPECT_ERROR(cache.append(t.v.view(), t.v.view()), "[PagedKvCache::append] k: shape [2, 2, 4, 12]");
  cache.append(t.k.view(), t.v.view());
  EXPECT_ERROR(cache.truncate(2, 0), "[PagedKvCache::truncate] b: 2");
  EXPECT_ERROR(cache.truncate(0, 5), "[PagedKvCache::truncate] length: 5", "0 to 4");
  EXPECT_ERROR(cache.share(0, 1, 2), "[PagedKvCache::share] to: sequence 1 of 4 tokens", "empty");
  EXPECT_ERROR(cache.share(0, 2, 2), "[PagedKvCache::share] to: 2");
  EXPECT_ERROR(cache.share(0, 1, 5), "[PagedKvCache::share] length: 5");
  const AnyRotaryTable table = rotary_table({.head_dim = kWidth}, consecutive_positions(4, 0), 4);
  Tensor<float, 4> out(t.out.shape());
  EXPECT_ERROR(attention_forward(t.q.view(), cache, {.out = out.view()}, {.k_rotary = table}), "k_rotary", "rotated");
}

}  // namespace
}  // namespace phasor
