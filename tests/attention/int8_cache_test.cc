// Caches of 8-bit numbers: the numbers and scales, attention to them against the double reference on the same numbers,
// and how far it is from attention to the keys and values that were stored.
#include <cfenv>
#include <cmath>
#include <limits>

#include "attention/error_rule.h"
#include "attention/random_case.h"
#include "attention/tensors.h"
#include "phasor/attention/kv_cache.h"
#include "phasor/attention/paged_kv_cache.h"
#include "phasor/core/parallel.h"
#include "support/every_target.h"
#include "support/expect_error.h"
#include "support/seeds.h"

namespace phasor {
namespace {

constexpr std::uint32_t kCases = 360, kShards = 4;
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

KvCache cache_of(const TensorView<const float, 4>& k, const TensorView<const float, 4>& v) {
  KvCache cache({.batch = k.shape[0],
                 .key_heads = k.shape[1],
                 .capacity = k.shape[2],
                 .channels = k.shape[3],
                 .value_channels = v.shape[3],
                 .keys = CachedKeys::unrotated,
                 .storage = CacheStorage::int8});
  cache.append(k, v);
  return cache;
}

// ---- numbers and scales ----

struct Row {
  std::vector<std::int8_t> numbers;
  float scale = 0;
};

Row stored(const std::vector<float>& row) {
  const auto channels = static_cast<std::int64_t>(row.size());
  const TensorView<const float, 4> rows(row.data(), {1, 1, 1, channels});
  const KvCache cache = cache_of(rows, rows);
  const std::int8_t* numbers = cache.keys<std::int8_t>().data;
  EXPECT_TRUE(std::equal(numbers, numbers + channels, cache.values<std::int8_t>().data));
  return {{numbers, numbers + channels}, cache.key_scales()(0, 0, 0)};
}

TEST(Int8Rows, AreRoundedToNearest) {
  for (std::uint64_t seed = 0; seed < 60; seed++) {
    std::vector<float> row(seed % 40 + 1);
    Philox(seed).fill_normal(row);
    for (float& x : row) x *= std::exp2(static_cast<float>(seed) - 30);
    float largest = 0;
    for (const float x : row) largest = std::max(largest, std::fabs(x));
    on_every_target([&] {
      const Row found = stored(row);
      ASSERT_EQ(found.scale, largest / 127);
      for (std::size_t c = 0; c < row.size(); c++)
        ASSERT_EQ(found.numbers[c], std::nearbyint(row[c] / found.scale)) << row[c];
    });
  }
}

TEST(Int8Rows, TiesGoToTheEvenNumber) {
  const std::vector<float> row{127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, 0.49999997f, -127};
  on_every_target([&] {
    const Row found = stored(row);
    EXPECT_EQ(found.scale, 1);
    EXPECT_EQ(found.numbers, (std::vector<std::int8_t>{127, 0, 2, 2, 0, -2, -2, 126, 0, -127}));
  });
}

TEST(Int8Rows, Extremes) {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min(), kMost = std::numeric_limits<float>::max();
  on_every_target([&] {
    EXPECT_EQ(stored({0, -0.0f, 0}).scale, 0);
    EXPECT_EQ(stored({0, -0.0f, 0}).numbers, (std::vector<std::int8_t>{0, 0, 0}));
    EXPECT_EQ(stored({kTiny, 0, -kTiny}).scale, 0);
    EXPECT_EQ(stored({180 * kTiny, 60 * kTiny}).scale, kTiny);  // 180 / 127 rounded
    EXPECT_EQ(stored({180 * kTiny, 60 * kTiny}).numbers, (std::vector<std::int8_t>{127, 60}));
    EXPECT_EQ(stored({kMost, -kMost, 0}).numbers, (std::vector<std::int8_t>{127, -127, 0}));
    for (const float poison : {kNaN, kInfinity, -kInfinity})
      for (std::size_t at : {0, 19}) {
        std::vector<float> row(20, 3.0f);
        row[at] = poison;
        EXPECT_TRUE(std::isnan(stored(row).scale));
        EXPECT_EQ(stored(row).numbers, std::vector<std::int8_t>(20, 0));
      }
  });
}

// ---- attention to them ----

// The numbers of a row times its scale.
template <class Real>
reference::Array<Real, 4> product(const TensorView<const std::int8_t, 4>& numbers,
                                  const TensorView<const float, 3>& scales) {
  reference::Array<Real, 4> result(numbers.shape);
  std::size_t i = 0;
  for (std::int64_t b = 0; b < numbers.shape[0]; b++)
    for (std::int64_t g = 0; g < numbers.shape[1]; g++)
      for (std::int64_t j = 0; j < numbers.shape[2]; j++)
        for (std::int64_t c = 0; c < numbers.shape[3]; c++)
          result.values[i++] = Real(static_cast<float>(numbers(b, g, j, c))) * static_cast<Real>(scales(b, g, j));
  return result;
}

template <class T>
struct Outputs {
  Guarded<T, 4> out;
  Guarded<float, 3> lse;

  explicit Outputs(const Case& c)
      : out({c.batch, c.heads, c.queries, c.value_width}, c.layout), lse({c.batch, c.heads, c.queries}, c.lse_layout) {}
  void run(const Inputs<T>& inputs, const KvCache& cache) {
    out.reset(), lse.reset();
    attention_forward(inputs.q.view, cache, {.out = out.view, .lse = lse.view}, inputs.options);
  }
  bool same_bits(const Outputs& other) const { return out.same_bits(other.out) && lse.same_bits(other.lse); }
};

// Inputs with the lengths and offsets of a call without a cache.
template <class T>
struct CacheInputs : Inputs<T> {
  std::vector<std::int64_t> lengths, offsets;

  explicit CacheInputs(const Case& c) : Inputs<T>(c) {
    lengths.assign(static_cast<std::size_t>(c.batch), c.keys);
    offsets.assign(static_cast<std::size_t>(c.batch), c.keys - c.queries);
    if (this->options.key_lengths.empty()) this->options.key_lengths = lengths;
    if (this->options.query_offsets.empty()) this->options.query_offsets = offsets;
  }
};

template <class T>
Tensor<float, 4> as_floats(const TensorView<T, 4>& x) {
  Tensor<float, 4> result(x.shape);
  std::int64_t i = 0;
  for (const float value : reference::read<float>(x).values) result.data()[i++] = value;
  return result;
}

template <class T>
void expect_equals_reference(const Case& c) {
  SCOPED_TRACE(testing::Message() << c);
  const CacheInputs<T> inputs(c);
  const Tensor<float, 4> k = as_floats(inputs.k.view), v = as_floats(inputs.v.view);
  const KvCache cache = cache_of(k.view(), v.view());
  const auto problem = [&]<class Real>(Real) {
    auto p = reference::problem<Real, T>(inputs.q.view, inputs.k.view, inputs.v.view, inputs.options);
    p.k = product<Real>(cache.keys<std::int8_t>(), cache.key_scales());
    p.v = product<Real>(cache.values<std::int8_t>(), cache.value_scales());
    return reference::forward(p);
  };
  const auto exact = problem(reference::Sized());
  const auto plain = problem(float());
  const Expected<4> out(exact.out, plain.out, UlpOf::value);
  const Expected<3> lse(exact.lse, plain.lse, UlpOf::size);
  Outputs<T> outputs(c);
  on_every_target([&] {
    outputs.run(inputs, cache);
    expect_obeys_error_rule("out", outputs.out, out);
    expect_exact_zeros("out", outputs.out, out);
    expect_obeys_error_rule("lse", outputs.lse, lse);
  });
  Outputs<T> one(c), other(c);
  set_num_threads(1);
  one.run(inputs, cache);
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    other.run(inputs, cache);
    EXPECT_TRUE(one.same_bits(other)) << threads << " threads";
  }
  set_num_threads(0);
}

// Few queries and many; a cache has no ragged sequences.
Case cache_case(std::uint32_t seed) {
  if (seed % 4 != 0) return decode_case(seed);
  Case c = random_case(seed);
  for (std::uint32_t next = seed; !c.query_starts.empty(); c = random_case(next)) next += kCases;
  return c;
}

class RandomInt8Cache : public testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomInt8Cache, EqualsReference) {
  for (const std::uint32_t seed : seeds({.count = kCases, .shard = GetParam(), .shards = kShards})) {
    SCOPED_TRACE(repeat_seed(seed));
    const Case c = cache_case(seed);
    if (seed % 3 == 0)
      expect_equals_reference<float>(c);
    else if (seed % 3 == 1)
      expect_equals_reference<bf16>(c);
    else
      expect_equals_reference<f16>(c);
  }
}
INSTANTIATE_TEST_SUITE_P(Shards, RandomInt8Cache, testing::Range(0u, kShards));

// A number is off by half a scale at most, so a score by half of |q|_1 * scale of the key * scale of scores = e at
// most; weights then change by factors from exp(-2e) to exp(2e), and a result by (exp(2e) - 1) * the largest value, and
// half a scale of the values.
TEST(Int8Cache, StaysWithinItsBoundOfTheKeysThatWereStored) {
  for (const std::int64_t queries : {1, 70}) {
    Tensors t({.heads = 4, .groups = 2, .queries = queries, .keys = 900, .width = 64, .value_width = 48});
    const AttentionOptions options{.scale = 1 / 8.0, .causal = true};
    t.forward(options);
    const KvCache cache = cache_of(t.k.view(), t.v.view());
    Tensor<float, 4> out(t.out.shape());
    attention_forward(t.q.view(), cache, {.out = out.view()}, options);
    double worst = 0;
    for (std::int64_t h = 0; h < 4; h++)
      for (std::int64_t i = 0; i < queries; i++) {
        double size = 0, key_scale = 0, value_scale = 0;
        for (std::int64_t c = 0; c < 64; c++) size += std::fabs(static_cast<double>(t.q(0, h, i, c)));
        for (std::int64_t j = 0; j < 900; j++) {
          key_scale = std::max<double>(key_scale, cache.key_scales()(0, h / 2, j));
          value_scale = std::max<double>(value_scale, cache.value_scales()(0, h / 2, j));
        }
        const double e = size * key_scale / 2 / 8;
        for (std::int64_t c = 0; c < 48; c++) {
          const double off = std::fabs(static_cast<double>(out(0, h, i, c)) - t.out(0, h, i, c));
          ASSERT_LE(off, std::expm1(2 * e) * 127 * value_scale + value_scale / 2);
          worst = std::max(worst, off);
        }
      }
    EXPECT_LE(worst, 0.01);  // roundings cancel: normal keys of 64 channels
    EXPECT_GT(worst, 1e-5);  // they are 8 bits
  }
}

// What a query does not see may be anything.
TEST(Int8Cache, HiddenKeysDoNotLeak) {
  constexpr std::int64_t kKeys = 600;
  for (const float poison : {kNaN, kInfinity})
    for (const std::int64_t width : {13, 64})
      on_every_target([&] {
        Tensors clean({.heads = 4, .groups = 2, .queries = 3, .keys = kKeys, .width = width, .value_width = width});
        Tensors dirty = clean;
        dirty.set_keys(kKeys - 1, kKeys - 1, poison);  // only the last query sees it
        dirty.set_keys(0, 80, poison);                 // outside the window
        dirty.set_keys(300, 300, poison);              // by key bias
        Tensor<float, 3> bias({1, 1, kKeys});
        bias(0, 0, 300) = -kInfinity;
        const AttentionOptions options{.causal = true, .window = {kKeys - 100}, .key_bias = bias.view()};
        for (Tensors* t : {&clean, &dirty})
          attention_forward(t->q.view(), cache_of(t->k.view(), t->v.view()), {t->out.view(), t->lse.view()}, options);
        for (std::int64_t h = 0; h < 4; h++)
          for (std::int64_t i = 0; i < 2; i++) {
            EXPECT_EQ(dirty.lse(0, h, i), clean.lse(0, h, i));
            for (std::int64_t e = 0; e < width; e++) EXPECT_EQ(dirty.out(0, h, i, e), clean.out(0, h, i, e));
          }
        for (std::int64_t h = 0; h < 4; h++) EXPECT_TRUE(std::isnan(dirty.out(0, h, 2, 0)));
      });
}

TEST(Int8Cache, NaNOfAValueShows) {
  Tensors t({.heads = 4, .groups = 2, .queries = 1, .keys = 1100, .width = 16});
  t.v(0, 0, 700, 3) = kNaN;
  attention_forward(t.q.view(), cache_of(t.k.view(), t.v.view()), {.out = t.out.view()});
  for (std::int64_t h = 0; h < 4; h++)
    for (std::int64_t e = 0; e < 8; e++) EXPECT_EQ(std::isnan(t.out(0, h, 0, e)), h < 2);
}

// ---- pages of other owners ----

TEST(Int8Pages, GiveTheBitsOfTheCache) {
  Tensors t({.heads = 4, .groups = 2, .keys = 50, .width = 32});
  PagedKvCache cache({.key_heads = 2,
                      .pages = 4,
                      .page_size = 16,
                      .channels = 32,
                      .value_channels = 8,
                      .storage = CacheStorage::int8});
  cache.append(t.k.view(), t.v.view());
  Tensor<float, 4> expected(t.out.shape());
  attention_forward(t.q.view(), cache, {.out = expected.view()});
  const KvPages<std::int8_t> pages = cache.pages<std::int8_t>();
  attention_forward(t.q.view(), pages, {.out = t.out.view()});
  EXPECT_TRUE(same_bits(t.out, expected));

  KvPages<std::int8_t> without = pages, others = pages;
  without.key_scales = {};
  others.value_scales = others.value_scales.slice(2, 0, 15);
  EXPECT_ERROR(attention_forward(t.q.view(), without, {.out = t.out.view()}), "key_scales: shape [0, 0, 0]",
               "[4, 2, 16]");
  EXPECT_ERROR(attention_forward(t.q.view(), others, {.out = t.out.view()}), "value_scales: shape [4, 2, 15]");
  const Tensor<float, 4> floats({4, 2, 16, 32}), float_values({4, 2, 16, 8});
  const KvPages<float> scaled{.keys = floats.view(),
                              .values = float_values.view(),
                              .block_table = pages.block_table,
                              .lengths = pages.lengths,
                              .value_scales = pages.value_scales};
  EXPECT_ERROR(attention_forward(t.q.view(), scaled, {.out = t.out.view()}), "value_scales: given");
  EXPECT_ERROR(cache.pages<float>(), "[PagedKvCache::pages] T", "int8");
}

}  // namespace
}  // namespace phasor
