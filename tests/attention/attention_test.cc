// What attention promises besides its numbers: empty tensors, masked NaN, large scores, counts, layouts.
#include "phasor/attention/attention.h"

#include <cfloat>
#include <numeric>

#include "attention/tensors.h"
#include "phasor/core/parallel.h"
#include "support/every_target.h"

namespace phasor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// On every target; and where floats are rounded, as bf16 is multiplied.
template <class Check>
void on_every_target_and_in_bf16(const Check& check) {
  on_every_target(check);
  set_default_precision(Precision::bf16);
  on_every_target_and_emulations([&] {
    if (multiplies_bf16()) check();
  });
  set_default_precision(Precision::storage);
}

TEST(Attention, EmptyTensorsAreLegal) {
  on_every_target_and_in_bf16([] {
    for (const Sizes& sizes : {Sizes{.queries = 0, .keys = 3}, Sizes{.batch = 0, .queries = 3, .keys = 3},
                               Sizes{.batch = 2, .heads = 4, .groups = 2, .queries = 0, .keys = 0}}) {
      Tensors t(sizes);
      t.run();
      expect_all(t.grad_k, 0);
      expect_all(t.grad_v, 0);
    }
  });
}

TEST(Attention, WithoutKeysTheResultIsZero) {
  on_every_target_and_in_bf16([] {
    Tensors t({.batch = 2, .heads = 4, .groups = 2, .queries = 3, .keys = 0});
    t.run();
    expect_all(t.out, 0);
    expect_all(t.lse, -kInfinity);
    expect_all(t.grad_q, 0);
  });
}

TEST(Attention, WithoutVisibleKeysTheResultIsZero) {
  const std::int64_t lengths[] = {0}, offsets[] = {-9};
  const Tensor<bool, 4> hidden({1, 1, 1, 1});
  Tensor<float, 4> mask({1, 1, 1, 5});
  std::fill(mask.begin(), mask.end(), -kInfinity);
  const AttentionOptions cases[] = {{.key_lengths = lengths},
                                    {.query_offsets = offsets, .causal = true},
                                    {.window = Window(0, 0)},
                                    {.mask = hidden.view()},
                                    {.mask = mask.view()}};
  on_every_target_and_in_bf16([&] {
    for (AttentionOptions options : cases) {
      Tensors t({.heads = 2, .groups = 1, .queries = 3, .keys = 5});
      t.run(options);
      expect_all(t.out, 0);
      expect_all(t.weights, 0);
      expect_all(t.lse, -kInfinity);
      expect_all(t.grad_q, 0);
      expect_all(t.grad_k, 0);
      expect_all(t.grad_v, 0);
      const float sinks[] = {0.5f, 0.5f};  // the sink is all there is to look at
      options.sinks = sinks;
      t.run(options);
      expect_all(t.out, 0);
      expect_all(t.lse, 0.5f);
      expect_all(t.grad_q, 0);
    }
  });
}

TEST(Attention, EmptySequencesOfARaggedBatchAreLegal) {
  const std::int64_t query_starts[] = {0, 0, 2, 5, 5}, key_starts[] = {0, 4, 4, 7, 7};
  const AttentionOptions options{.query_starts = query_starts, .key_starts = key_starts};
  on_every_target_and_in_bf16([&] {
    Tensors t({.queries = 5, .keys = 7}), last({.queries = 3, .keys = 3});
    t.run(options);
    for (std::int64_t i = 0; i < 2; i++) {  // queries without keys
      EXPECT_EQ(t.out(0, 0, i, 0), 0);
      EXPECT_EQ(t.lse(0, 0, i), -kInfinity);
    }
    for (std::int64_t j = 0; j < 4; j++) EXPECT_EQ(t.grad_v(0, 0, j, 0), 0);  // keys without queries
    std::copy_n(&t.q(0, 0, 2, 0), last.q.size(), last.q.data());
    std::copy_n(&t.k(0, 0, 4, 0), last.k.size(), last.k.data());
    std::copy_n(&t.v(0, 0, 4, 0), last.v.size(), last.v.data());
    last.forward();
    for (std::int64_t i = 0; i < 3; i++)
      EXPECT_NEAR(t.out(0, 0, 2 + i, 3), last.out(0, 0, i, 3), default_precision() == Precision::bf16 ? 0.01 : 1e-6);
  });
}

// Keys first .. last are not visible to any query: whatever they hold, results and gradients are the same bits.
void expect_does_not_leak(const AttentionOptions& options, std::int64_t first, std::int64_t last) {
  const Sizes sizes{.batch = 2, .heads = 4, .groups = 2, .queries = 37, .keys = 83, .width = 20, .value_width = 12};
  on_every_target_and_in_bf16([&] {
    Tensors clean(sizes);
    clean.run(options);
    EXPECT_EQ(clean.grad_k(1, 1, first, 0), 0);
    for (const float poison : {NAN, kInfinity}) {
      Tensors poisoned(sizes);
      poisoned.set_keys(first, last, poison);
      poisoned.run(options);
      EXPECT_TRUE(same_bits(clean.out, poisoned.out));
      EXPECT_TRUE(same_bits(clean.lse, poisoned.lse));
      EXPECT_TRUE(same_bits(clean.weights, poisoned.weights));
      EXPECT_TRUE(same_bits(clean.grad_q, poisoned.grad_q));
      EXPECT_TRUE(same_bits(clean.grad_k, poisoned.grad_k));
      EXPECT_TRUE(same_bits(clean.grad_v, poisoned.grad_v));
    }
  });
}

TEST(Attention, NanBeyondKeyLengthsDoesNotLeak) {
  const std::int64_t lengths[] = {70, 70};
  expect_does_not_leak({.key_lengths = lengths}, 70, 82);
}

TEST(Attention, NanInTheFutureDoesNotLeak) {
  const std::int64_t offsets[] = {20};
  expect_does_not_leak({.query_offsets = offsets, .causal = true}, 57, 82);
  expect_does_not_leak({.query_offsets = offsets, .window = Window(5, 5)}, 62, 82);
  expect_does_not_leak({.query_offsets = offsets, .window = Window(5, 5)}, 0, 15);
}

TEST(Attention, NanUnderAMaskDoesNotLeak) {
  Tensor<bool, 4> visible({1, 1, 1, 83});
  Tensor<float, 4> mask({1, 1, 37, 83});
  Tensor<float, 3> bias({1, 2, 83});
  for (std::int64_t j = 0; j < 83; j++) {
    const bool hidden = j >= 30 && j <= 41;
    visible(0, 0, 0, j) = !hidden;
    if (!hidden) continue;
    for (std::int64_t i = 0; i < 37; i++) mask(0, 0, i, j) = -kInfinity;
    bias(0, 0, j) = bias(0, 1, j) = -kInfinity;
  }
  expect_does_not_leak({.mask = std::as_const(visible).view()}, 30, 41);
  expect_does_not_leak({.mask = std::as_const(mask).view()}, 30, 41);
  expect_does_not_leak({.key_bias = std::as_const(bias).view()}, 30, 41);
}

TEST(Attention, NanOfLaterKeysDoesNotReachEarlierQueries) {
  on_every_target_and_in_bf16([] {
    const Sizes sizes{.heads = 2, .queries = 67, .keys = 67};
    const AttentionOptions options{.causal = true};
    Tensors clean(sizes), poisoned(sizes);
    poisoned.set_keys(21, 66, NAN);
    clean.run(options);
    poisoned.run(options);
    for (std::int64_t h = 0; h < 2; h++)
      for (std::int64_t i = 0; i < 21; i++) {
        EXPECT_EQ(clean.lse(0, h, i), poisoned.lse(0, h, i));
        EXPECT_EQ(std::memcmp(&clean.out(0, h, i, 0), &poisoned.out(0, h, i, 0), 8 * sizeof(float)), 0) << i;
        EXPECT_EQ(std::memcmp(&clean.grad_q(0, h, i, 0), &poisoned.grad_q(0, h, i, 0), 8 * sizeof(float)), 0) << i;
      }
    EXPECT_TRUE(std::isnan(poisoned.out(0, 0, 21, 0)));  // and it is not hidden where it belongs
  });
}

// Rows of padding: the mask shows them no key, and q and grad_out have what memory held.
TEST(Attention, NanOfAQueryThatSeesNoKeyDoesNotReachKeys) {
  Tensor<bool, 4> visible({1, 1, 37, 1});
  for (std::int64_t i = 0; i < 37; i++) visible(0, 0, i, 0) = i < 30;
  const AttentionOptions options{.mask = std::as_const(visible).view()};
  on_every_target_and_in_bf16([&] {
    const Sizes sizes{.heads = 2, .queries = 37, .keys = 21};
    Tensors clean(sizes), poisoned(sizes);
    for (Tensor<float, 4>* x : {&poisoned.q, &poisoned.grad_out})
      for (std::int64_t h = 0; h < 2; h++) std::fill_n(&(*x)(0, h, 30, 0), 7 * x->shape()[3], NAN);
    clean.run(options);
    poisoned.run(options);
    EXPECT_TRUE(same_bits(clean.out, poisoned.out));
    EXPECT_TRUE(same_bits(clean.grad_q, poisoned.grad_q));
    EXPECT_TRUE(same_bits(clean.grad_k, poisoned.grad_k));
    EXPECT_TRUE(same_bits(clean.grad_v, poisoned.grad_v));
  });
}

TEST(Attention, NanOfOneSequenceDoesNotReachAnother) {
  const std::int64_t starts[] = {0, 19, 40};
  const AttentionOptions options{.query_starts = starts, .key_starts = starts};
  on_every_target_and_in_bf16([&] {
    const Sizes sizes{.queries = 40, .keys = 40};
    Tensors clean(sizes), poisoned(sizes);
    poisoned.set_keys(19, 39, NAN);
    clean.run(options);
    poisoned.run(options);
    EXPECT_EQ(std::memcmp(clean.out.data(), poisoned.out.data(), 19 * 8 * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(clean.grad_q.data(), poisoned.grad_q.data(), 19 * 8 * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(clean.grad_k.data(), poisoned.grad_k.data(), 19 * 8 * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(clean.grad_v.data(), poisoned.grad_v.data(), 19 * 8 * sizeof(float)), 0);
  });
}

TEST(Attention, ScoresNearOverflow) {
  on_every_target([] {
    Tensors t({.queries = 2, .keys = 3, .width = 1});
    t.q(0, 0, 0, 0) = 1e19f;
    t.q(0, 0, 1, 0) = -1e19f;
    t.k(0, 0, 0, 0) = -1e19f;
    t.k(0, 0, 1, 0) = 1e18f;
    t.k(0, 0, 2, 0) = 1e19f;
    t.run();
    for (std::int64_t e = 0; e < 8; e++) {  // all weight on the largest score
      EXPECT_EQ(t.out(0, 0, 0, e), t.v(0, 0, 2, e));
      EXPECT_EQ(t.out(0, 0, 1, e), t.v(0, 0, 0, e));
    }
    EXPECT_FLOAT_EQ(t.lse(0, 0, 0), 1e38f);
    for (const float g : t.grad_v) EXPECT_TRUE(std::isfinite(g));
    EXPECT_EQ(t.grad_v(0, 0, 1, 0), 0);
  });
}

// The least finite number is a mask that people use. On every key of a row it is a common number, that cancels.
TEST(Attention, LeastNumberAsMask) {
  on_every_target([] {
    Tensors t({.queries = 2, .keys = 5});
    Tensor<float, 4> mask({1, 1, 2, 5});
    for (std::int64_t j = 0; j < 5; j++) mask(0, 0, 0, j) = -FLT_MAX;
    mask(0, 0, 1, 1) = mask(0, 0, 1, 4) = -FLT_MAX;
    t.run({.mask = std::as_const(mask).view()});
    for (std::int64_t j = 0; j < 5; j++) EXPECT_FLOAT_EQ(t.weights(0, 0, 0, j), 0.2f);  // scores are lost beside it
    EXPECT_LT(t.lse(0, 0, 0), -2e38f);  // finite; in base 2 the least number is -2.36e38 (docs/numerics.md)
    EXPECT_TRUE(std::isfinite(t.lse(0, 0, 0)));
    EXPECT_EQ(t.weights(0, 0, 1, 1), 0);
    EXPECT_EQ(t.weights(0, 0, 1, 4), 0);
    EXPECT_NEAR(t.weights(0, 0, 1, 0) + t.weights(0, 0, 1, 2) + t.weights(0, 0, 1, 3), 1, 1e-6);
    for (const float g : t.grad_q) EXPECT_TRUE(std::isfinite(g));
    for (const float g : t.grad_v) EXPECT_TRUE(std::isfinite(g));
  });
}

// -1e9 on some keys hides them; on all it leaves the softmax of what the addition to -1e9 leaves of the scores.
TEST(Attention, LargeNegativeMask) {
  on_every_target([] {
    Tensors t({.queries = 3, .keys = 5}), without({.queries = 3, .keys = 5});
    Tensor<float, 4> mask({1, 1, 3, 5});
    for (std::int64_t j = 0; j < 5; j++) mask(0, 0, 0, j) = -1e9f;
    mask(0, 0, 1, 2) = -1e9f;
    std::fill_n(&t.q(0, 0, 0, 0), 8, 0.0f);
    t.k(0, 0, 3, 0) = 4096 * std::sqrt(8.0f);
    t.q(0, 0, 0, 0) = 1;  // scores 0, 0, 0, 4096, 0, of which 4096 survives
    without.q = t.q;
    without.k = t.k;
    for (std::int64_t j : {0, 1, 2, 4}) t.k(0, 0, j, 0) = without.k(0, 0, j, 0) = 0;
    t.forward({.mask = std::as_const(mask).view()});
    without.forward();
    EXPECT_EQ(t.weights(0, 0, 0, 3), 1);
    EXPECT_EQ(t.weights(0, 0, 1, 2), 0);
    for (std::int64_t j = 0; j < 5; j++) EXPECT_EQ(t.weights(0, 0, 2, j), without.weights(0, 0, 2, j));
  });
}

TEST(Attention, WithoutPositionsTheOrderOfKeysDoesNotMatter) {
  on_every_target([] {
    const std::int64_t n = 41;
    Tensors t({.heads = 2, .groups = 2, .queries = n, .keys = n}),
        shuffled({.heads = 2, .groups = 2, .queries = n, .keys = n});
    for (std::int64_t h = 0; h < 2; h++)
      for (std::int64_t i = 0; i < n; i++) {
        const std::int64_t from = (7 * i + 3) % n;
        std::copy_n(&t.q(0, h, from, 0), 8, &shuffled.q(0, h, i, 0));
        std::copy_n(&t.k(0, h, from, 0), 8, &shuffled.k(0, h, i, 0));
        std::copy_n(&t.v(0, h, from, 0), 8, &shuffled.v(0, h, i, 0));
      }
    t.forward();
    shuffled.forward();
    for (std::int64_t h = 0; h < 2; h++)
      for (std::int64_t i = 0; i < n; i++)
        for (std::int64_t e = 0; e < 8; e++)
          EXPECT_NEAR(shuffled.out(0, h, i, e), t.out(0, h, (7 * i + 3) % n, e), 1e-6);
  });
}

// How many keys query i sees, from the weights.
std::int64_t seen(const Tensors& t, std::int64_t i) {
  const float* row = &t.weights(0, 0, i, 0);
  return std::count_if(row, row + t.weights.shape()[3], [](float weight) { return weight > 0; });
}

TEST(Attention, WindowsCountAsDocumented) {
  on_every_target([] {
    Tensors t({.queries = 40, .keys = 40});
    t.forward({.causal = true, .window = Window(6)});
    EXPECT_EQ(seen(t, 0), 1);
    EXPECT_EQ(seen(t, 20), 6);  // itself and 5 before
    EXPECT_GT(t.weights(0, 0, 20, 15), 0);
    EXPECT_EQ(t.weights(0, 0, 20, 14), 0);
    t.forward({.window = Window(6, 6)});
    EXPECT_EQ(seen(t, 20), 11);
    t.forward({.window = Window(3, 1)});
    EXPECT_EQ(seen(t, 20), 3);
    t.forward({.window = Window(Window::kUnbounded, 3)});
    EXPECT_EQ(seen(t, 20), 23);
    t.forward({.window = Window(0, 5)});  // only keys after the query
    EXPECT_EQ(seen(t, 20), 4);
    EXPECT_EQ(t.weights(0, 0, 20, 20), 0);
    const std::int64_t offset[] = {-18};
    t.forward({.query_offsets = offset, .causal = true, .window = Window(6)});
    EXPECT_EQ(seen(t, 20), 3);
    EXPECT_EQ(seen(t, 17), 0);
  });
}

TEST(Attention, TheLastQueryStandsAtTheLastKey) {
  Tensors t({.queries = 3, .keys = 10});
  t.forward({.causal = true});
  for (std::int64_t i = 0; i < 3; i++) EXPECT_EQ(seen(t, i), 8 + i);
  const std::int64_t lengths[] = {9};  // moves no diagonal
  t.forward({.causal = true, .key_lengths = lengths});
  EXPECT_EQ(seen(t, 0), 8);
  EXPECT_EQ(seen(t, 2), 9);
}

TEST(Attention, DropoutDropsTheRateAndScalesTheRest) {
  const Sizes sizes{.heads = 4, .groups = 4, .queries = 100, .keys = 150};
  on_every_target([&] {
    Tensors plain(sizes), dropped(sizes), other(sizes);
    plain.forward();
    dropped.forward({.dropout = 0.3, .seed = 11});
    other.forward({.dropout = 0.3, .seed = 12});
    std::int64_t zeros = 0, both = 0;
    for (std::int64_t i = 0; i < plain.weights.size(); i++) {
      zeros += dropped.weights.data()[i] == 0;
      both += dropped.weights.data()[i] == 0 && other.weights.data()[i] == 0;
      if (dropped.weights.data()[i] != 0) {
        ASSERT_NEAR(dropped.weights.data()[i] * 0.7f, plain.weights.data()[i], 1e-6);
      }
    }
    const auto n = static_cast<double>(plain.weights.size());  // 60000: deviations 0.0019 and 0.0012
    EXPECT_NEAR(static_cast<double>(zeros) / n, 0.3, 0.008);
    EXPECT_NEAR(static_cast<double>(both) / n, 0.09, 0.005);  // seeds are independent
    EXPECT_TRUE(same_bits(plain.lse, dropped.lse));           // the softmax itself drops nothing
  });
}

TEST(Attention, WeightsSumToOneAndGiveTheResult) {
  on_every_target([] {
    Tensors t({.batch = 2, .heads = 4, .groups = 2, .queries = 50, .keys = 70});
    t.forward({.causal = true});
    for (std::int64_t b = 0; b < 2; b++)
      for (std::int64_t h = 0; h < 4; h++)
        for (std::int64_t i = 0; i < 50; i++) {
          double sum = 0, out = 0, exps = 0;
          for (std::int64_t j = 0; j < 70; j++) {
            sum += t.weights(b, h, i, j);
            out += static_cast<double>(t.weights(b, h, i, j)) * t.v(b, h / 2, j, 5);
            const double score =
                std::inner_product(&t.q(b, h, i, 0), &t.q(b, h, i, 0) + 8, &t.k(b, h / 2, j, 0), 0.0) / std::sqrt(8.0);
            if (j <= i + 20) exps += std::exp(score);
          }
          ASSERT_NEAR(sum, 1, 1e-6);
          ASSERT_NEAR(out, t.out(b, h, i, 5), 1e-6);
          ASSERT_NEAR(std::log(exps), t.lse(b, h, i), 1e-6);
        }
  });
}

TEST(Attention, OptionalOutputsDoNotChangeTheResult) {
  Tensors with({.heads = 2, .queries = 50, .keys = 70}), without({.heads = 2, .queries = 50, .keys = 70});
  with.forward({.causal = true});
  attention_forward(without.q.view(), without.k.view(), without.v.view(), AttentionOutput<float>{without.out.view()},
                    {.causal = true});
  EXPECT_TRUE(same_bits(with.out, without.out));
}

// Long enough for several tiles of queries and keys, and more tasks than threads.
TEST(Attention, SameBitsForAnyThreadCountAndEveryRun) {
  const Sizes sizes{.heads = 3, .queries = 333, .keys = 700, .width = 40, .value_width = 24};
  Tensors first(sizes), other(sizes);
  set_num_threads(1);
  first.run({.causal = true});
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    other.run({.causal = true});
    EXPECT_TRUE(same_bits(first.out, other.out)) << threads;
    EXPECT_TRUE(same_bits(first.lse, other.lse)) << threads;
    EXPECT_TRUE(same_bits(first.grad_q, other.grad_q)) << threads;
    EXPECT_TRUE(same_bits(first.grad_k, other.grad_k)) << threads;
    EXPECT_TRUE(same_bits(first.grad_v, other.grad_v)) << threads;
  }
  set_num_threads(0);
}

// From 64 heads on, heads of up to 256 queries are one block each.
TEST(Attention, ManySmallHeadsGiveWhatEachGivesAlone) {
  on_every_target([] {
    const Sizes sizes{.batch = 8, .heads = 8, .groups = 8, .queries = 197, .keys = 197};
    Tensors many(sizes), other(sizes), alone({.queries = 197, .keys = 197});
    set_num_threads(1);
    many.forward({.causal = true});
    set_num_threads(3);
    other.forward({.causal = true});
    set_num_threads(0);
    EXPECT_TRUE(same_bits(many.out, other.out));
    EXPECT_TRUE(same_bits(many.lse, other.lse));
    std::copy_n(&many.q(5, 3, 0, 0), alone.q.size(), alone.q.data());
    std::copy_n(&many.k(5, 3, 0, 0), alone.k.size(), alone.k.data());
    std::copy_n(&many.v(5, 3, 0, 0), alone.v.size(), alone.v.data());
    alone.forward({.causal = true});
    for (std::int64_t i = 0; i < alone.out.size(); i++)
      ASSERT_NEAR((&many.out(5, 3, 0, 0))[i], alone.out.data()[i], 2e-6) << "element " << i;
  });
}

TEST(Attention, OneQueryAtATimeGivesTheSame) {
  on_every_target([] {
    Tensors all({.heads = 4, .groups = 2, .queries = 150, .keys = 150}), one({.heads = 4, .groups = 2, .keys = 150});
    all.forward({.causal = true});
    for (const std::int64_t i : {0, 1, 70, 149}) {
      for (std::int64_t h = 0; h < 4; h++) std::copy_n(&all.q(0, h, i, 0), 8, &one.q(0, h, 0, 0));
      const std::int64_t length[] = {i + 1};
      one.forward({.key_lengths = length});
      for (std::int64_t h = 0; h < 4; h++) EXPECT_NEAR(one.out(0, h, 0, 7), all.out(0, h, i, 7), 1e-6);
    }
  });
}

// Slices of one [B, T, 3, H, D] tensor interleave in memory but share no element, as inputs and as gradients.
TEST(Attention, PackedQueriesKeysAndValues) {
  const std::int64_t b = 2, tokens = 37, heads = 3, d = 16;
  const Sizes sizes{
      .batch = b, .heads = heads, .groups = heads, .queries = tokens, .keys = tokens, .width = d, .value_width = d};
  Tensor<float, 4> packed({b, tokens, 3 * heads, d}), gradient(packed.shape());
  const auto slice = [&](Tensor<float, 4>& from, std::int64_t which) {
    return from.view().slice(2, which * heads, heads).transposed(1, 2);
  };
  const auto copy = [&](TensorView<const float, 4> from, TensorView<float, 4> to) {
    for (std::int64_t i = 0; i < from.size(); i++) {
      const std::int64_t e = i % d, t = i / d % tokens, h = i / d / tokens % heads, n = i / d / tokens / heads;
      to(n, h, t, e) = from(n, h, t, e);
    }
  };
  on_every_target([&] {
    Tensors apart(sizes), together(sizes);
    apart.run({.causal = true});
    copy(apart.q.view(), slice(packed, 0));
    copy(apart.k.view(), slice(packed, 1));
    copy(apart.v.view(), slice(packed, 2));
    const TensorView<const float, 4> q = slice(packed, 0), k = slice(packed, 1), v = slice(packed, 2);
    attention_forward(q, k, v, {together.out.view(), together.lse.view(), together.softmax.view()}, {.causal = true});
    expect_near(apart.out, together.out, 1e-6f);
    attention_backward(q, k, v, together.result(),
                       {.q = slice(gradient, 0), .k = slice(gradient, 1), .v = slice(gradient, 2)}, {.causal = true});
    copy(slice(gradient, 0), together.grad_q.view());
    copy(slice(gradient, 1), together.grad_k.view());
    copy(slice(gradient, 2), together.grad_v.view());
    expect_near(apart.grad_q, together.grad_q, 1e-5f);
    expect_near(apart.grad_k, together.grad_k, 1e-5f);
    expect_near(apart.grad_v, together.grad_v, 1e-5f);
  });
}

// One key head seen as several, by a stride of 0, is grouped attention.
TEST(Attention, ExpandedKeysEqualGroups) {
  on_every_target([] {
    Tensors grouped({.heads = 4, .groups = 1, .queries = 20, .keys = 33}),
        expanded({.heads = 4, .groups = 1, .queries = 20, .keys = 33});
    grouped.forward();
    TensorView<const float, 4> k = expanded.k.view(), v = expanded.v.view();
    k.shape[1] = v.shape[1] = 4;
    k.strides[1] = v.strides[1] = 0;
    attention_forward(expanded.q.view(), k, v, AttentionOutput<float>{expanded.out.view()});
    expect_near(grouped.out, expanded.out, 1e-6f);
  });
}

}  // namespace
}  // namespace phasor
