// Decoding with a cache gives what the causal forward pass gives: token by token, in chunks, after truncating, for
// every encoding and both kinds of blocks.
#include <cmath>

#include "layers/streams_check.h"
#include "phasor/position/rope.h"

namespace phasor {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 23, kChannels = 20;

BlockConfig config_of(bool gaussian) {
  return {.hidden_size = kChannels,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 6,
          .intermediate_size = 31,
          .qk_norm = !gaussian,
          .attention_bias = !gaussian};
}

// What one text is decoded with. Parameters of encodings are drawn from a seed, so all plans have the same.
struct Reader {
  EncodingConfig encoding;
  PositionPlan plan(std::int64_t first, std::int64_t count) const {
    std::vector<Weight> weights = parameters(encoding, kGroupedShape, 5);
    for (Weight& weight : weights) Philox(6).fill_normal(weight.value());
    const Tensor<std::int64_t, 3> all = consecutive_positions(first + count),
                                  new_ones = consecutive_positions(count, first);
    return lower(encoding, weights, {.queries = new_ones.view(), .keys = all.view(), .shape = kGroupedShape});
  }
};

StreamTensors part(const StreamTensors& x, std::int64_t first, std::int64_t count) {
  const bool gaussian = x.log_sigma.size() > 0;
  StreamTensors result({kBatch, count, kChannels}, gaussian);
  for (std::int64_t b = 0; b < kBatch; b++)
    for (std::int64_t t = 0; t < count; t++)
      for (std::int64_t c = 0; c < kChannels; c++) {
        result.mu(b, t, c) = x.mu(b, first + t, c);
        if (gaussian) result.log_sigma(b, t, c) = x.log_sigma(b, first + t, c);
      }
  return result;
}

void expect_close(const Values& found, const Values& expected, double relative) {
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  expect_near("y", found, expected, relative * largest);
}

template <class Layer>
class Decoding : public testing::Test {
 protected:
  Decoding() : block_(config_of(Layer::kGaussian), initial_), weights_(block_) {}

  // The whole text at once.
  StreamTensors forward(const PositionPlan& plan, const AttentionOptions& options, std::int64_t tokens = kTokens) {
    AttentionOptions causal = options;
    causal.causal = true;
    const StreamTensors x = part(x_, 0, tokens);
    StreamTensors y({kBatch, tokens, kChannels}, Layer::kGaussian);
    block_.forward(x.view(), plan, causal, y.view(), nullptr, workspace_);
    return y;
  }

  StreamTensors decode(const Reader& reader, const AttentionOptions& options, LayerCache& cache, std::int64_t first,
                       std::int64_t count) {
    const StreamTensors x = part(x_, first, count);
    StreamTensors y = StreamTensors::unwritten({kBatch, count, kChannels}, Layer::kGaussian);
    block_.decode(x.view(), reader.plan(first, count), options, cache, y.view(), workspace_);
    return y;
  }

  void expect_same_as_forward(const Reader& reader, const LayerCacheConfig& cache_config,
                              const AttentionOptions& options, double relative = 1e-5) {
    const StreamTensors y = forward(reader.plan(0, kTokens), options);
    for (const std::int64_t chunk : {1, 3, 8, 23}) {
      SCOPED_TRACE("chunks of " + std::to_string(chunk));
      LayerCache cache = block_.make_cache(cache_config);
      for (std::int64_t first = 0; first < kTokens; first += chunk) {
        const std::int64_t count = std::min(chunk, kTokens - first);
        const StreamTensors found = decode(reader, options, cache, first, count);
        expect_close(found.values(), part(y, first, count).values(), relative);
        if (this->HasFatalFailure()) return;
      }
    }
  }

  InitialValues initial_{1};
  Layer block_;
  LayerWeights weights_;
  StreamTensors x_ = StreamTensors::random({kBatch, kTokens, kChannels}, Layer::kGaussian, 1);
  Workspace workspace_;
};

using Both = testing::Types<Block, W2Block>;
TYPED_TEST_SUITE(Decoding, Both);

TYPED_TEST(Decoding, EveryEncoding) {
  for (const Encoding& row : encodings())
    for (const CachedKeys keys : {CachedKeys::rotated, CachedKeys::unrotated}) {
      SCOPED_TRACE(std::string(row.name) + (keys == CachedKeys::rotated ? ", rotated keys" : ", unrotated keys"));
      this->expect_same_as_forward({row.defaults(kGroupedShape)}, {.batch = kBatch, .capacity = kTokens, .keys = keys},
                                   {});
    }
}

TYPED_TEST(Decoding, Window) {
  this->expect_same_as_forward({RopeConfig{.head_dim = 6}}, {.batch = kBatch, .capacity = 30}, {.window = 5});
}

// Frequencies of these depend on the length of the text: a token sees all keys rotated for the length it stands at the
// end of, as a forward pass over that text does.
TYPED_TEST(Decoding, ScalingsThatFollowTheLength) {
  const RopeScaling dynamic{.type = "dynamic", .factor = 4.0};
  const RopeScaling longrope{.type = "longrope",
                             .factor = 4.0,
                             .original_max_position_embeddings = 10,
                             .short_factor = {1.0, 1.1, 1.3},
                             .long_factor = {1.5, 2.0, 4.0}};
  for (const RopeScaling& scaling : {dynamic, longrope}) {
    SCOPED_TRACE(scaling.type);
    const Reader reader{RopeConfig{.head_dim = 6, .scaling = scaling, .max_position_embeddings = 10}};
    LayerCache cache = this->block_.make_cache({.batch = kBatch, .capacity = kTokens, .keys = CachedKeys::unrotated});
    for (std::int64_t t = 0; t < kTokens; t++) {
      const StreamTensors whole = this->forward(reader.plan(0, t + 1), {}, t + 1);
      const StreamTensors found = this->decode(reader, {}, cache, t, 1);
      expect_close(found.values(), part(whole, t, 1).values(), 1e-5);
    }
  }
}

TYPED_TEST(Decoding, TruncatedCachesGoOn) {
  const Reader reader{RopeConfig{.head_dim = 6}};
  LayerCache cache = this->block_.make_cache({.batch = kBatch, .capacity = kTokens});
  this->decode(reader, {}, cache, 0, 15);
  for (std::int64_t b = 0; b < kBatch; b++) cache.truncate(b, 9);
  EXPECT_EQ(cache.longest(), 9);
  const StreamTensors y = this->forward(reader.plan(0, kTokens), {});
  for (const auto& [first, count] : {std::pair{9, 1}, {10, 9}, {19, 4}})
    expect_close(this->decode(reader, {}, cache, first, count).values(), part(y, first, count).values(), 1e-5);
  cache.clear();
  EXPECT_EQ(cache.longest(), 0);
  expect_close(this->decode(reader, {}, cache, 0, kTokens).values(), y.values(), 1e-5);
}

// Sequences of different lengths: the second begins where the first has 4 tokens. Positions are those of each.
TYPED_TEST(Decoding, SequencesOfDifferentLengths) {
  const RopeConfig rope{.head_dim = 6};
  const Reader reader{rope};
  const StreamTensors y = this->forward(reader.plan(0, kTokens), {});
  LayerCache cache = this->block_.make_cache({.batch = kBatch, .capacity = kTokens});
  this->decode(reader, {}, cache, 0, 9);
  cache.truncate(1, 5);
  StreamTensors x({kBatch, 1, kChannels}, TypeParam::kGaussian), found({kBatch, 1, kChannels}, TypeParam::kGaussian);
  for (std::int64_t step = 0; step < 6; step++) {
    const StreamTensors long_one = part(this->x_, 9 + step, 1), short_one = part(this->x_, 5 + step, 1);
    Tensor<std::int64_t, 3> positions({1, kBatch, 1});
    positions(0, 0, 0) = 9 + step, positions(0, 1, 0) = 5 + step;
    PositionPlan plan;
    plan.rotate_q = rotary_table(rope, positions.view());
    plan.score_scale = rope_score_scale(rope, 6);
    const StreamTensors expected_long = part(y, 9 + step, 1), expected_short = part(y, 5 + step, 1);
    for (std::int64_t c = 0; c < kChannels; c++) {
      x.mu(0, 0, c) = long_one.mu(0, 0, c), x.mu(1, 0, c) = short_one.mu(1, 0, c);
      if (!TypeParam::kGaussian) continue;
      x.log_sigma(0, 0, c) = long_one.log_sigma(0, 0, c);
      x.log_sigma(1, 0, c) = short_one.log_sigma(1, 0, c);
    }
    this->block_.decode(std::as_const(x).view(), plan, {}, cache, found.view(), this->workspace_);
    for (std::int64_t c = 0; c < kChannels; c++) {
      EXPECT_NEAR(found.mu(0, 0, c), expected_long.mu(0, 0, c), 4e-5);
      EXPECT_NEAR(found.mu(1, 0, c), expected_short.mu(1, 0, c), 4e-5);
    }
  }
  EXPECT_EQ(cache.lengths()[0], 15);
  EXPECT_EQ(cache.lengths()[1], 11);
}

// Storage of 16 bits rounds keys and values once, to 2^-8 and 2^-11 of themselves.
using DecodingDot = Decoding<Block>;
TEST_F(DecodingDot, SixteenBits) {
  const Reader reader{RopeConfig{.head_dim = 6}};
  expect_same_as_forward(reader, {.batch = kBatch, .capacity = kTokens, .storage = CacheStorage::bf16}, {}, 0x1p-7);
  expect_same_as_forward(reader, {.batch = kBatch, .capacity = kTokens, .storage = CacheStorage::f16}, {}, 0x1p-10);
}

// 8 bits are off by 1 / 254 of the largest channel of a row at most.
TEST_F(DecodingDot, EightBits) {
  const Reader reader{RopeConfig{.head_dim = 6}};
  for (const CachedKeys keys : {CachedKeys::rotated, CachedKeys::unrotated})
    expect_same_as_forward(reader, {.batch = kBatch, .capacity = kTokens, .storage = CacheStorage::int8, .keys = keys},
                           {}, 0x1p-6);
}

}  // namespace
}  // namespace phasor
