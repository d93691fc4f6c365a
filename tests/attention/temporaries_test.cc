// Options made from temporaries, as users write them. Run under the address sanitizer too; without it, memory taken in
// between, full of NaN, shows what reads a freed table.
#include <gtest/gtest.h>

#include <list>

#include "attention/tensors.h"
#include "phasor/attention/kv_cache.h"
#include "phasor/position/alibi.h"
#include "phasor/position/encoding.h"
#include "phasor/position/rope.h"
#include "phasor/position/rotary.h"

namespace phasor {
namespace {

constexpr std::int64_t kTokens = 20, kHeads = 2, kWidth = 32;

template <int Rank>
Tensor<float, Rank> random_numbers(const Shape<Rank>& shape, std::uint64_t seed) {
  Tensor<float, Rank> tensor(shape);
  Philox(seed).fill_normal(tensor);
  return tensor;
}

AnyRotaryTable table() { return rotary_table({.head_dim = kWidth}, consecutive_positions(kTokens)); }
RelativeBias bias() { return {random_numbers<2>({kHeads, 9}, 11), -8}; }
Tensor<float, 4> mask() { return random_numbers<4>({1, 1, kTokens, kTokens}, 12); }
Tensor<float, 3> key_bias() { return random_numbers<3>({1, 1, kTokens}, 13); }
Tensor<float, 1> sinks() { return random_numbers<1>({kHeads}, 14); }
Tensor<bool, 4> visible() {
  Tensor<bool, 4> result({1, 1, 1, kTokens});
  std::fill(result.begin(), result.end() - 3, true);
  return result;
}
std::vector<std::int64_t> lengths() { return {kTokens - 1}; }

// Takes the memory of tables that were just freed.
template <class T, int Rank>
std::list<Tensor<T, Rank>> garbage(const Shape<Rank>& shape, T value) {
  std::list<Tensor<T, Rank>> all;
  for (int i = 0; i < 8; i++) {
    all.emplace_back(shape);
    std::fill(all.back().begin(), all.back().end(), value);
  }
  return all;
}

Tensors run(const AttentionOptions& options) {
  const auto cosines = garbage<float, 3>({1, kTokens, kWidth / 2}, NAN);
  const auto biases = garbage<float, 2>({kHeads, 9}, NAN);
  const auto masks = garbage<float, 4>({1, 1, kTokens, kTokens}, NAN);
  const auto keys = garbage<float, 3>({1, 1, kTokens}, NAN);
  const auto ends = garbage<float, 1>({kHeads}, NAN);
  const auto hidden = garbage<bool, 4>({1, 1, 1, kTokens}, false);
  const std::list<std::vector<std::int64_t>> numbers(8, std::vector<std::int64_t>(1, 0));
  Tensors t({.heads = kHeads, .queries = kTokens, .keys = kTokens, .width = kWidth});
  t.run(options);
  return t;
}

void expect_same(const AttentionOptions& options, const AttentionOptions& expected) {
  const Tensors found = run(options), right = run(expected);
  EXPECT_TRUE(same_bits(found.out, right.out));
  EXPECT_TRUE(same_bits(found.grad_q, right.grad_q));
  EXPECT_TRUE(same_bits(found.grad_k, right.grad_k));
}

TEST(Temporaries, RotationsOfOptionsAreOwned) {
  const AnyRotaryTable kept = table();
  const AttentionOptions options{.causal = true, .q_rotary = table(), .k_rotary = table()};
  expect_same(options, {.causal = true, .q_rotary = kept, .k_rotary = kept});

  const AttentionOptions typed{.q_rotary = half_table({.head_dim = kWidth}, consecutive_positions(kTokens))};
  expect_same(typed, {.q_rotary = kept});
}

TEST(Temporaries, BiasesMasksAndListsOfOptionsAreOwned) {
  const RelativeBias kept_bias = bias();
  const Tensor<float, 4> kept_mask = mask();
  const Tensor<bool, 4> kept_visible = visible();
  const Tensor<float, 3> kept_key_bias = key_bias();
  const Tensor<float, 1> kept_sinks = sinks();
  const std::vector<std::int64_t> kept_lengths = lengths();
  const AttentionOptions options{
      .key_lengths = lengths(), .mask = mask(), .key_bias = key_bias(), .relative_bias = bias(), .sinks = sinks()};
  expect_same(options, {.key_lengths = kept_lengths,
                        .mask = kept_mask,
                        .key_bias = kept_key_bias,
                        .relative_bias = kept_bias,
                        .sinks = kept_sinks});
  const AttentionOptions hidden{.mask = visible(), .alibi_slopes = sinks()};
  expect_same(hidden, {.mask = kept_visible, .alibi_slopes = kept_sinks});
}

TEST(Temporaries, CopiesOfOptionsShareWhatIsOwned) {
  const AnyRotaryTable kept = table();
  AttentionOptions copy;
  {
    AttentionOptions options{.q_rotary = table()};
    copy = std::move(options);
  }
  expect_same(copy, {.q_rotary = kept});
}

TEST(Temporaries, TablesOfAPlanThatIsGoneAreOwned) {
  const ModelShape shape{.heads = kHeads, .head_dim = kWidth};
  const auto plan = [&](const EncodingConfig& config) {
    return lower(config, {}, {.queries = consecutive_positions(kTokens), .shape = shape});
  };
  const PositionPlan alibi = plan(AlibiConfig{}), rope = plan(RopeConfig{.head_dim = kWidth});
  const AttentionOptions options{.relative_bias = plan(AlibiConfig{}).bias,
                                 .q_rotary = plan(RopeConfig{.head_dim = kWidth}).rotate_q};
  expect_same(options, {.relative_bias = alibi.bias, .q_rotary = rope.rotate_q});
}

TEST(Temporaries, AsArguments) {
  Tensors t({.heads = kHeads, .queries = kTokens, .keys = kTokens, .width = kWidth});
  Tensor<float, 4> rotated(t.q.shape()), expected(t.q.shape());
  const AnyRotaryTable kept = table();
  apply_rotary(t.q.view(), kept, expected.view());
  apply_rotary(std::as_const(t.q).view(), table(), rotated.view());
  EXPECT_TRUE(same_bits(rotated, expected));
}

// ---- what must not compile ----

template <class T>
concept HasKeys = requires(T&& cache) {
  std::forward<T>(cache).template keys<float>();
  std::forward<T>(cache).template values<float>();
  std::forward<T>(cache).lengths();
};
static_assert(HasKeys<const KvCache&> && !HasKeys<KvCache>);

template <class T>
concept HasKeyRotation = requires(T&& plan) {
  std::forward<T>(plan).key_rotation();
};
static_assert(HasKeyRotation<const PositionPlan&> && !HasKeyRotation<PositionPlan>);

static_assert(!std::is_convertible_v<const AnyRotaryTable, RotaryView>);
static_assert(!std::is_convertible_v<const HalfTable, RotaryView>);
static_assert(!std::is_convertible_v<const RelativeBias, RelativeBiasView>);

}  // namespace
}  // namespace phasor
