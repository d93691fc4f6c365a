// Attention of few queries, which has a kernel of its own: against the double reference, and against the kernel for
// many queries, which takes over when weights are asked for.
#include "attention/error_rule.h"
#include "attention/random_case.h"
#include "attention/tensors.h"
#include "phasor/core/parallel.h"
#include "support/every_target.h"
#include "support/seeds.h"

namespace phasor {
namespace {

constexpr std::uint32_t kCases = 240, kShards = 4;

template <class T>
struct Outputs {
  Guarded<T, 4> out;
  Guarded<float, 3> lse;

  explicit Outputs(const Case& c)
      : out({c.batch, c.heads, c.queries, c.value_width}, c.layout), lse({c.batch, c.heads, c.queries}, c.lse_layout) {}
  void run(const Case& c, const Inputs<T>& inputs) {
    out.reset();
    lse.reset();
    AttentionOutput<T> output{.out = out.view};
    if (c.lse) output.lse = lse.view;
    attention_forward(inputs.q.view, inputs.k.view, inputs.v.view, output, inputs.options);
  }
  bool same_bits(const Outputs& other) const { return out.same_bits(other.out) && lse.same_bits(other.lse); }
};

template <class T>
void expect_equals_reference(const Case& c) {
  SCOPED_TRACE(testing::Message() << c);
  const Inputs<T> inputs(c);
  const auto problem = [&]<class Real>(Real) {
    return reference::forward(reference::problem<Real, T>(inputs.q.view, inputs.k.view, inputs.v.view, inputs.options));
  };
  const auto exact = problem(reference::Sized());
  const auto plain = problem(float());
  const Expected<4> out(exact.out, plain.out, UlpOf::value);
  const Expected<3> lse(exact.lse, plain.lse, UlpOf::size);
  Outputs<T> outputs(c);
  on_every_target([&] {
    outputs.run(c, inputs);
    expect_obeys_error_rule("out", outputs.out, out);
    expect_exact_zeros("out", outputs.out, out);
    if (c.lse) expect_obeys_error_rule("lse", outputs.lse, lse);
  });
  Outputs<T> one(c), other(c);
  set_num_threads(1);
  one.run(c, inputs);
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    other.run(c, inputs);
    EXPECT_TRUE(one.same_bits(other)) << threads << " threads";
  }
  set_num_threads(0);
}

class RandomDecode : public testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomDecode, EqualsReference) {
  for (const std::uint32_t seed : seeds({.count = kCases, .shard = GetParam(), .shards = kShards})) {
    SCOPED_TRACE(repeat_seed(seed));
    const Case c = decode_case(seed);
    if (seed % 3 == 0)
      expect_equals_reference<float>(c);
    else if (seed % 3 == 1)
      expect_equals_reference<bf16>(c);
    else
      expect_equals_reference<f16>(c);
  }
}
INSTANTIATE_TEST_SUITE_P(Shards, RandomDecode, testing::Range(0u, kShards));

// Ragged sequences, some without queries or keys.
TEST(Decode, RaggedSequences) {
  Case c;
  c.heads = 4, c.groups = 2, c.width = 40, c.value_width = 24, c.causal = true;
  c.query_starts = {0, 1, 1, 4, 6}, c.key_starts = {0, 700, 711, 730, 730};
  c.queries = 6, c.keys = 730;
  expect_equals_reference<float>(c);
}

TEST(Decode, EqualsTheKernelForManyQueries) {
  for (const std::int64_t keys : {2, 130, 1500, 17000}) {  // the last in longer chunks
    Tensors t({.batch = 2, .heads = 8, .groups = 2, .queries = 2, .keys = keys, .width = 64, .value_width = 32});
    const AttentionOptions options{.causal = true};
    t.forward(options);  // with weights
    Tensors alone = t;
    attention_forward(alone.q.view(), alone.k.view(), alone.v.view(), {alone.out.view(), alone.lse.view()}, options);
    expect_near(alone.out, t.out, 1e-6f);
    expect_near(alone.lse, t.lse, 2e-6f);
  }
}

// The last row of a causal pass over a whole text is what its last token sees when it is decoded.
TEST(Decode, EqualsTheLastRowOfALongPass) {
  constexpr std::int64_t kTokens = 700;
  Tensors all({.batch = 1, .heads = 8, .groups = 2, .queries = kTokens, .keys = kTokens, .width = 64});
  const AttentionOptions options{.causal = true, .window = {300}};
  all.forward(options);
  Tensor<float, 4> out({1, 8, 1, 8});
  attention_forward(TensorView<const float, 4>(all.q.view().slice(2, kTokens - 1, 1)), all.k.view(), all.v.view(),
                    {.out = out.view()}, options);
  for (std::int64_t h = 0; h < 8; h++)
    for (std::int64_t e = 0; e < 8; e++) EXPECT_NEAR(out(0, h, 0, e), all.out(0, h, kTokens - 1, e), 1e-6f);
}

// What a query does not see may be anything, also where another query of the group sees it.
TEST(Decode, HiddenKeysDoNotLeak) {
  constexpr std::int64_t kKeys = 600;
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    on_every_target([&] {
      Tensors clean({.batch = 1, .heads = 4, .groups = 2, .queries = 3, .keys = kKeys, .width = 16});
      Tensors dirty = clean;
      dirty.set_keys(kKeys - 1, kKeys - 1, poison);  // only the last query sees it
      dirty.set_keys(0, 80, poison);                 // outside the window
      dirty.set_keys(300, 300, poison);              // by key bias
      Tensor<float, 3> bias({1, 1, kKeys});
      bias(0, 0, 300) = -std::numeric_limits<float>::infinity();
      const AttentionOptions options{.causal = true, .window = {kKeys - 100}, .key_bias = bias.view()};
      for (Tensors* t : {&clean, &dirty})
        attention_forward(t->q.view(), t->k.view(), t->v.view(), {t->out.view(), t->lse.view()}, options);
      for (std::int64_t h = 0; h < 4; h++)
        for (std::int64_t i = 0; i < 2; i++) {
          EXPECT_EQ(dirty.lse(0, h, i), clean.lse(0, h, i));
          for (std::int64_t e = 0; e < 8; e++) EXPECT_NEAR(dirty.out(0, h, i, e), clean.out(0, h, i, e), 1e-6f);
        }
    });
}

TEST(Decode, NaNThatIsSeenShows) {
  Tensors t({.batch = 1, .heads = 4, .groups = 2, .queries = 1, .keys = 1100, .width = 16});
  t.set_keys(700, 700, NAN);
  attention_forward(t.q.view(), t.k.view(), t.v.view(), {t.out.view(), t.lse.view()});
  for (const float x : t.out) EXPECT_TRUE(std::isnan(x));
  for (const float x : t.lse) EXPECT_TRUE(std::isnan(x));
}

TEST(Decode, NoKeysGiveZeros) {
  Tensors t({.batch = 2, .heads = 2, .groups = 1, .queries = 1, .keys = 5, .width = 8});
  const std::int64_t lengths[] = {0, 5};
  attention_forward(t.q.view(), t.k.view(), t.v.view(), {t.out.view(), t.lse.view()}, {.key_lengths = lengths});
  for (std::int64_t h = 0; h < 2; h++) {
    EXPECT_EQ(t.lse(0, h, 0), -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isfinite(t.lse(1, h, 0)));
    for (std::int64_t e = 0; e < 8; e++) EXPECT_EQ(t.out(0, h, 0, e), 0.0f);
  }
}

// Scores of either end of the floats, the largest in the last chunk.
TEST(Decode, LargeScores) {
  constexpr std::int64_t kKeys = 1200;
  Tensors t({.batch = 1, .heads = 2, .groups = 1, .queries = 1, .keys = kKeys, .width = 8});
  Tensor<float, 3> bias({1, 1, kKeys});
  std::fill(bias.begin(), bias.end(), std::numeric_limits<float>::lowest());
  const auto run = [&] {
    attention_forward(t.q.view(), t.k.view(), t.v.view(), {t.out.view(), t.lse.view()}, {.key_bias = bias.view()});
  };
  run();  // a row of one finite score, whatever it is: the plain mean
  double mean = 0;
  for (std::int64_t j = 0; j < kKeys; j++) mean += t.v(0, 0, j, 0) / static_cast<double>(kKeys);
  EXPECT_NEAR(t.out(0, 0, 0, 0), mean, 1e-6);
  bias(0, 0, kKeys - 1) = 1e30f;
  run();
  EXPECT_EQ(t.out(0, 1, 0, 3), t.v(0, 0, kKeys - 1, 3));
  EXPECT_FLOAT_EQ(t.lse(0, 0, 0), 1e30f);
}

}  // namespace
}  // namespace phasor
