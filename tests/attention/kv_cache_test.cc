// KvCache: what goes in comes out, step by step as all at once, and keys that are rotated when read stay right when the
// angles change.
#include "phasor/attention/kv_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attention/tensors.h"
#include "phasor/position/rope.h"
#include "phasor/position/rotary.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

constexpr std::int64_t kBatch = 2, kGroups = 2, kHeads = 6, kWidth = 16, kValueWidth = 12;

// q, k and v of a text of `tokens` tokens.
Tensors text(std::int64_t tokens) {
  return Tensors({.batch = kBatch,
                  .heads = kHeads,
                  .groups = kGroups,
                  .queries = tokens,
                  .keys = tokens,
                  .width = kWidth,
                  .value_width = kValueWidth});
}

KvCacheConfig config(std::int64_t capacity, CachedKeys keys = CachedKeys::rotated,
                     CacheStorage storage = CacheStorage::float32) {
  return {.batch = kBatch,
          .key_heads = kGroups,
          .capacity = capacity,
          .channels = kWidth,
          .value_channels = kValueWidth,
          .keys = keys,
          .storage = storage};
}

template <class T>
constexpr CacheStorage storage_of = std::is_same_v<T, float>  ? CacheStorage::float32
                                    : std::is_same_v<T, bf16> ? CacheStorage::bf16
                                                              : CacheStorage::f16;

template <class T>
KvCache cache_of(std::int64_t capacity, CachedKeys keys = CachedKeys::rotated) {
  return KvCache(config(capacity, keys, storage_of<T>));
}

TensorView<const float, 4> tokens_of(const Tensor<float, 4>& x, std::int64_t first, std::int64_t count) {
  return x.view().slice(2, first, count);
}

AnyRotaryTable table_of(const RopeConfig& rope, std::int64_t first, std::int64_t count, std::int64_t length) {
  return rotary_table(rope, consecutive_positions(count, first), length);
}

template <class T, class U>
bool same_elements(const TensorView<const T, 4>& a, const TensorView<const U, 4>& b) {
  if (a.shape != b.shape) return false;
  for (std::int64_t i = 0; i < a.shape[0]; i++)
    for (std::int64_t j = 0; j < a.shape[1]; j++)
      for (std::int64_t k = 0; k < a.shape[2]; k++)
        for (std::int64_t l = 0; l < a.shape[3]; l++)
          if (static_cast<float>(a(i, j, k, l)) != static_cast<float>(b(i, j, k, l))) return false;
  return true;
}

// The largest difference between row `row` of `all` and the only row of `one`.
double difference(const Tensor<float, 4>& all, std::int64_t row, const Tensor<float, 4>& one) {
  double largest = 0;
  for (std::int64_t b = 0; b < kBatch; b++)
    for (std::int64_t h = 0; h < kHeads; h++)
      for (std::int64_t e = 0; e < kValueWidth; e++)
        largest = std::max(largest, std::fabs(static_cast<double>(all(b, h, row, e)) - one(b, h, 0, e)));
  return largest;
}

const RopeConfig kRope{.head_dim = kWidth};
const RopeConfig kDynamic{
    .head_dim = kWidth, .scaling = {.type = "dynamic", .factor = 4.0}, .max_position_embeddings = 8};

template <class T>
class KvCacheOf : public testing::Test {};
using Types = testing::Types<float, bf16, f16>;
TYPED_TEST_SUITE(KvCacheOf, Types);

// Stored numbers are the rotated ones, rounded once.
TYPED_TEST(KvCacheOf, TokenByTokenEqualsAllAtOnce) {
  constexpr std::int64_t kTokens = 150;  // several tasks
  const Tensors t = text(kTokens);
  KvCache all = cache_of<TypeParam>(200), steps = cache_of<TypeParam>(200);
  const AnyRotaryTable table = table_of(kRope, 0, kTokens, kTokens);
  all.append(t.k.view(), t.v.view(), table);
  for (std::int64_t i = 0; i < kTokens; i++)
    steps.append(tokens_of(t.k, i, 1), tokens_of(t.v, i, 1), table_of(kRope, i, 1, i + 1));
  EXPECT_TRUE(same_elements(all.template keys<TypeParam>(), steps.template keys<TypeParam>()));
  EXPECT_TRUE(same_elements(all.template values<TypeParam>(), steps.template values<TypeParam>()));
  EXPECT_EQ(all.template keys<TypeParam>().shape, (Shape<4>{kBatch, kGroups, kTokens, kWidth}));

  Tensor<float, 4> rotated(t.k.shape()), values(t.v.shape());
  apply_rotary(t.k.view(), table, rotated.view());
  std::transform(rotated.begin(), rotated.end(), rotated.begin(), [](float x) { return float(TypeParam(x)); });
  std::transform(t.v.begin(), t.v.end(), values.begin(), [](float x) { return float(TypeParam(x)); });
  EXPECT_TRUE(same_elements(all.template keys<TypeParam>(), std::as_const(rotated).view()));
  EXPECT_TRUE(same_elements(all.template values<TypeParam>(), std::as_const(values).view()));
}

// Tokens of the cache's own type, and queries and results of it.
TYPED_TEST(KvCacheOf, TakesItsOwnType) {
  const Tensors t = text(5);
  const auto as_type = [](const Tensor<float, 4>& from) {
    Tensor<TypeParam, 4> to(from.shape());
    std::transform(from.begin(), from.end(), to.begin(), [](float x) { return TypeParam(x); });
    return to;
  };
  KvCache floats = cache_of<TypeParam>(5), own = cache_of<TypeParam>(5);
  floats.append(t.k.view(), t.v.view());
  const Tensor<TypeParam, 4> k = as_type(t.k), v = as_type(t.v);
  own.append(k.view(), v.view());
  EXPECT_TRUE(same_elements(floats.template keys<TypeParam>(), own.template keys<TypeParam>()));
  EXPECT_TRUE(same_elements(floats.template values<TypeParam>(), own.template values<TypeParam>()));

  const Tensor<TypeParam, 4> q = as_type(t.q);
  Tensor<TypeParam, 4> out(t.out.shape());
  attention_forward(q.view(), own, {.out = out.view()}, {.causal = true});
  Tensor<float, 4> wide_q(q.shape()), wide_out(out.shape());
  std::transform(q.begin(), q.end(), wide_q.begin(), [](TypeParam x) { return float(x); });
  attention_forward(wide_q.view(), own, {.out = wide_out.view()}, {.causal = true});
  for (std::int64_t i = 0; i < out.size(); i++) EXPECT_EQ(float(out.data()[i]), float(TypeParam(wide_out.data()[i])));
}

// Row i of causal attention over the whole text is what token i gives when it is the newest. 600 tokens are two chunks.
TYPED_TEST(KvCacheOf, StepsEqualAWholePass) {
  constexpr std::int64_t kTokens = 600;
  Tensors t = text(kTokens);
  for (Tensor<float, 4>* x : {&t.k, &t.v})  // numbers that every type holds, so that only the rotated keys are rounded
    for (float& value : *x) value = float(TypeParam(value));
  const AnyRotaryTable table = table_of(kRope, 0, kTokens, kTokens);
  t.forward({.causal = true, .q_rotary = table, .k_rotary = table});
  const double allowed = std::is_same_v<TypeParam, float> ? 2e-6 : std::is_same_v<TypeParam, f16> ? 2e-3 : 2e-2;
  KvCache rotated = cache_of<TypeParam>(kTokens), unrotated = cache_of<TypeParam>(kTokens, CachedKeys::unrotated);
  Tensor<float, 4> out({kBatch, kHeads, 1, kValueWidth});
  for (std::int64_t i = 0; i < kTokens; i++) {
    const AnyRotaryTable row = table_of(kRope, i, 1, i + 1);
    rotated.append(tokens_of(t.k, i, 1), tokens_of(t.v, i, 1), row);
    unrotated.append(tokens_of(t.k, i, 1), tokens_of(t.v, i, 1));
    attention_forward(tokens_of(t.q, i, 1), rotated, {.out = out.view()}, {.causal = true, .q_rotary = row});
    EXPECT_LE(difference(t.out, i, out), allowed) << "rotated, token " << i;
    attention_forward(tokens_of(t.q, i, 1), unrotated, {.out = out.view()}, {.q_rotary = row, .k_rotary = table});
    EXPECT_LE(difference(t.out, i, out), 2e-6) << "unrotated, token " << i;
  }
}

// Dynamic NTK rotates all tokens by other angles whenever the text grows. Recomputed from scratch, the last row of each
// length is what keys kept unrotated give; keys rotated for earlier lengths give something else.
TEST(KvCache, DynamicNtkStaysExactWithUnrotatedKeys) {
  constexpr std::int64_t kTokens = 40;
  const Tensors t = text(kTokens);
  KvCache rotated(config(kTokens)), unrotated(config(kTokens, CachedKeys::unrotated));
  Tensor<float, 4> out({kBatch, kHeads, 1, kValueWidth}), stale(out.shape());
  for (std::int64_t i = 0; i < kTokens; i++) {
    const std::int64_t length = i + 1;
    const AnyRotaryTable all = table_of(kDynamic, 0, length, length), row = table_of(kDynamic, i, 1, length);
    Tensor<float, 4> scratch({kBatch, kHeads, length, kValueWidth});
    attention_forward(tokens_of(t.q, 0, length), tokens_of(t.k, 0, length), tokens_of(t.v, 0, length),
                      {.out = scratch.view()}, {.causal = true, .q_rotary = all, .k_rotary = all});

    unrotated.append(tokens_of(t.k, i, 1), tokens_of(t.v, i, 1));
    attention_forward(tokens_of(t.q, i, 1), unrotated, {.out = out.view()}, {.q_rotary = row, .k_rotary = all});
    EXPECT_LE(difference(scratch, i, out), 2e-6) << "token " << i;

    rotated.append(tokens_of(t.k, i, 1), tokens_of(t.v, i, 1), row);
    attention_forward(tokens_of(t.q, i, 1), rotated, {.out = stale.view()}, {.q_rotary = row});
    const double off = difference(scratch, i, stale);
    const bool same = length <= kDynamic.max_position_embeddings;  // up to there angles do not change
    EXPECT_TRUE(same ? off <= 2e-6 : off >= 1e-3) << "token " << i << ", off by " << off;
  }
}

// Sequences of different lengths, the counts of each step different too: as each sequence alone.
TEST(KvCache, SequencesHaveLengthsOfTheirOwn) {
  const Tensors t = text(7);
  KvCache cache(config(20));
  const std::int64_t first[] = {7, 2}, second[] = {0, 5};
  cache.append(t.k.view(), t.v.view(), {}, first);
  cache.append(t.k.view(), t.v.view(), {}, second);
  cache.append(tokens_of(t.k, 0, 1), tokens_of(t.v, 0, 1));
  EXPECT_EQ(std::vector<std::int64_t>(cache.lengths().begin(), cache.lengths().end()),
            (std::vector<std::int64_t>{8, 8}));
  EXPECT_EQ(cache.keys<float>()(1, 1, 4, 3),
            t.k(1, 1, 2, 3));  // the fifth token of sequence 1 was the third of `second`
  cache.truncate(0, 3);
  EXPECT_EQ(cache.keys<float>().shape[2], 8);

  Tensor<float, 4> out({kBatch, kHeads, 2, kValueWidth}), alone({1, kHeads, 2, kValueWidth});
  attention_forward(tokens_of(t.q, 5, 2), cache, {.out = out.view()}, {.causal = true});
  for (std::int64_t b = 0; b < kBatch; b++) {
    const std::int64_t length = cache.lengths()[static_cast<std::size_t>(b)];
    const auto of = [&](const TensorView<const float, 4>& x) { return x.slice(0, b, 1).slice(2, 0, length); };
    attention_forward(tokens_of(t.q, 5, 2).slice(0, b, 1), of(cache.keys<float>()), of(cache.values<float>()),
                      {.out = alone.view()}, {.causal = true});
    for (std::int64_t h = 0; h < kHeads; h++)
      for (std::int64_t i = 0; i < 2; i++)
        for (std::int64_t e = 0; e < kValueWidth; e++) EXPECT_EQ(out(b, h, i, e), alone(0, h, i, e));
  }
}

// The caller's own lengths and offsets count.
TEST(KvCache, OptionsOfTheCallerCount) {
  const Tensors t = text(6);
  KvCache cache(config(6));
  cache.append(t.k.view(), t.v.view());
  Tensor<float, 4> out({kBatch, kHeads, 1, kValueWidth}), expected(out.shape());
  const std::int64_t lengths[] = {4, 2}, offset[] = {1};
  attention_forward(tokens_of(t.q, 0, 1), cache, {.out = out.view()},
                    {.query_offsets = offset, .causal = true, .key_lengths = lengths});
  attention_forward(tokens_of(t.q, 0, 1), t.k.view(), t.v.view(), {.out = expected.view()},
                    {.query_offsets = offset, .causal = true, .key_lengths = lengths});
  EXPECT_TRUE(same_bits(out, expected));
}

TEST(KvCache, TruncatedTokensAreReplaced) {
  const Tensors t = text(6);
  KvCache cache(config(6)), expected(config(6));
  cache.append(t.k.view(), t.v.view());
  for (std::int64_t b = 0; b < kBatch; b++) cache.truncate(b, 2);
  cache.append(tokens_of(t.k, 0, 3), tokens_of(t.v, 0, 3));
  expected.append(tokens_of(t.k, 0, 2), tokens_of(t.v, 0, 2));
  expected.append(tokens_of(t.k, 0, 3), tokens_of(t.v, 0, 3));
  EXPECT_TRUE(same_elements(cache.keys<float>(), expected.keys<float>()));
  EXPECT_TRUE(same_elements(cache.values<float>(), expected.values<float>()));
  cache.clear();
  EXPECT_EQ(cache.longest(), 0);
  Tensor<float, 4> out({kBatch, kHeads, 1, kValueWidth});
  std::fill(out.begin(), out.end(), NAN);
  attention_forward(tokens_of(t.q, 0, 1), cache, {.out = out.view()});
  expect_all(out, 0.0f);
}

TEST(KvCache, FullCacheSaysSoAndStaysAsItWas) {
  const Tensors t = text(4);
  KvCache cache = cache_of<bf16>(6);
  const std::int64_t counts[] = {1, 4};
  cache.append(t.k.view(), t.v.view(), {}, counts);
  EXPECT_ERROR(cache.append(tokens_of(t.k, 0, 3), tokens_of(t.v, 0, 3)), "[KvCache::append] capacity: 6",
               "sequence 1 has 4", "room for 3");
  EXPECT_EQ(cache.lengths()[0], 1);
  EXPECT_EQ(cache.lengths()[1], 4);
  EXPECT_EQ(float(cache.keys<bf16>()(0, 0, 1, 0)), 0.0f);
  cache.append(tokens_of(t.k, 0, 2), tokens_of(t.v, 0, 2));
  EXPECT_EQ(cache.lengths()[1], 6);
}

TEST(KvCache, BadInput) {
  const Tensors t = text(4);
  KvCache cache(config(6)), unrotated(config(6, CachedKeys::unrotated));
  EXPECT_ERROR(KvCache({.capacity = -1, .channels = 4}), "[KvCache]", "capacity: -1");
  EXPECT_ERROR(KvCache({.capacity = 4}), "[KvCache]", "channels: 0");
  EXPECT_ERROR(cache.keys<bf16>(), "[KvCache::keys] T", "float");
  EXPECT_ERROR(cache.values<std::int8_t>(), "[KvCache::values] T", "float");
  EXPECT_ERROR(cache.append(t.v.view(), t.v.view()), "k: shape [2, 2, 4, 12]", "[2, 2, 4, 16] = [B, G, n, D]");
  EXPECT_ERROR(cache.append(t.k.view(), tokens_of(t.v, 0, 3)), "v: shape [2, 2, 3, 12]", "[2, 2, 4, 12]");
  EXPECT_ERROR(cache.append(t.k.view(), t.v.view().transposed(2, 3)), "v: shape");
  const std::int64_t one[] = {1}, many[] = {1, 5}, negative[] = {-1, 0};
  EXPECT_ERROR(cache.append(t.k.view(), t.v.view(), {}, one), "counts: 1 numbers", "2");
  EXPECT_ERROR(cache.append(t.k.view(), t.v.view(), {}, many), "counts: 5 for sequence 1", "0 to 4");
  EXPECT_ERROR(cache.append(t.k.view(), t.v.view(), {}, negative), "counts: -1 for sequence 0");
  const AnyRotaryTable few = table_of(kRope, 0, 3, 3), table = table_of(kRope, 0, 4, 4);
  const AnyRotaryTable wide = table_of({.head_dim = 32}, 0, 4, 4);
  EXPECT_ERROR(cache.append(t.k.view(), t.v.view(), few), "rotation: shape [1, 1, 3, 8]", "at least 4 tokens");
  EXPECT_ERROR(cache.append(t.k.view(), t.v.view(), wide), "rotation: shape [1, 1, 4, 16]");
  EXPECT_ERROR(unrotated.append(t.k.view(), t.v.view(), table), "unrotated", "k_rotary");
  EXPECT_ERROR(cache.truncate(2, 0), "[KvCache::truncate] b: 2");
  EXPECT_ERROR(cache.truncate(0, 1), "[KvCache::truncate] length: 1", "0 to 0");
  EXPECT_EQ(cache.longest(), 0);

  cache.append(t.k.view(), t.v.view());
  Tensor<float, 4> out(t.out.shape());
  EXPECT_ERROR(attention_forward(t.q.view(), cache, {.out = out.view()}, {.k_rotary = table}), "k_rotary", "rotated");
  EXPECT_ERROR(attention_forward(t.q.view(), cache, {.out = out.view()}, {.query_starts = many}), "query_starts");
  EXPECT_ERROR(attention_forward(t.v.view(), cache, {.out = out.view()}), "[attention_forward]", "k: shape");
}

}  // namespace
}  // namespace phasor
