// Masks of blocks: that they mean what they are made from, what they skip, and the masks that people use them for.
#include "phasor/attention/block_mask.h"

#include <functional>

#include "attention/tensors.h"
#include "reference/attention.h"
#include "support/every_target.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

using Sees = std::function<bool(std::int64_t i, std::int64_t j)>;

Tensor<bool, 4> dense(std::int64_t queries, std::int64_t keys, const Sees& sees) {
  Tensor<bool, 4> visible({1, 1, queries, keys});
  for (std::int64_t i = 0; i < queries; i++)
    for (std::int64_t j = 0; j < keys; j++) visible(0, 0, i, j) = sees(i, j);
  return visible;
}

// Results and gradients are those of the dense mask.
void expect_as_dense(std::int64_t queries, std::int64_t keys, const Sees& sees, std::int64_t query_block = 128,
                     std::int64_t key_block = 128) {
  const Tensor<bool, 4> visible = dense(queries, keys, sees);
  const BlockMask mask = make_block_mask(visible.view(), query_block, key_block);
  on_every_target([&] {
    const Sizes sizes{.heads = 2, .queries = queries, .keys = keys, .width = 16};
    Tensors by_blocks(sizes), by_pairs(sizes);
    by_blocks.run({.block_mask = mask});
    by_pairs.run({.mask = visible});
    expect_near(by_blocks.out, by_pairs.out, 2e-6f);
    expect_near(by_blocks.weights, by_pairs.weights, 1e-6f);
    expect_near(by_blocks.grad_q, by_pairs.grad_q, 5e-6f);
    expect_near(by_blocks.grad_k, by_pairs.grad_k, 2e-5f);
    expect_near(by_blocks.grad_v, by_pairs.grad_v, 2e-5f);
  });
}

TEST(BlockMask, HasTheBitsOfTheDenseMask) {
  const Sees odd = [](std::int64_t i, std::int64_t j) { return (i * 7 + j * 3) % 5 < 2; };
  const Tensor<bool, 4> visible = dense(70, 150, odd);
  for (const std::int64_t query_block : {1, 16, 128})
    for (const std::int64_t key_block : {1, 48, 64, 100}) {
      const BlockMask mask = make_block_mask(visible.view(), query_block, key_block);
      for (std::int64_t i = 0; i < 70; i++)
        for (std::int64_t j = 0; j < 150; j++) ASSERT_EQ(reference::sees(mask, 0, 0, i, j), odd(i, j)) << i << ' ' << j;
    }
}

TEST(BlockMask, EmptyAndFullBlocksHaveNoBits) {
  const Tensor<bool, 4> causal = dense(256, 256, [](std::int64_t i, std::int64_t j) { return j <= i; });
  const BlockMask mask = make_block_mask(causal.view(), 64, 64);
  EXPECT_EQ(mask.bits.shape[0], 4);  // the diagonal
  EXPECT_EQ(mask.blocks(0, 0, 0, 3), BlockMask::kEmpty);
  EXPECT_EQ(mask.blocks(0, 0, 3, 0), BlockMask::kFull);
}

TEST(BlockMask, Documents) {
  const auto document = [](std::int64_t i) { return i < 90 ? 0 : i < 300 ? 1 : 2; };
  expect_as_dense(330, 330, [&](std::int64_t i, std::int64_t j) { return document(i) == document(j) && j <= i; });
  expect_as_dense(
      330, 330, [&](std::int64_t i, std::int64_t j) { return document(i) == document(j); }, 64, 64);
}

TEST(BlockMask, SlidingWindow) {
  expect_as_dense(300, 300, [](std::int64_t i, std::int64_t j) { return j <= i && i - j < 70; });
}

TEST(BlockMask, PrefixAndThenCausal) {
  expect_as_dense(
      260, 260, [](std::int64_t i, std::int64_t j) { return j < 100 || j <= i; }, 32, 100);
}

// Speculative decoding: token i continues token (i - 1) / 2.
TEST(BlockMask, Tree) {
  const Sees ancestor = [](std::int64_t i, std::int64_t j) {
    for (; i > j; i = (i - 1) / 2) {
    }
    return i == j;
  };
  expect_as_dense(200, 200, ancestor, 64, 64);
}

TEST(BlockMask, FewQueriesAfterManyKeys) {
  expect_as_dense(1, 1500, [](std::int64_t, std::int64_t j) { return j % 512 < 40; });
  expect_as_dense(
      3, 1500, [](std::int64_t i, std::int64_t j) { return j > 1400 + i; }, 2, 64);
}

TEST(BlockMask, AQueryThatSeesNothingGivesZero) {
  const Tensor<bool, 4> visible = dense(100, 100, [](std::int64_t i, std::int64_t) { return i >= 50; });
  Tensors t({.queries = 100, .keys = 100});
  t.run({.block_mask = make_block_mask(visible.view(), 32, 32)});
  for (std::int64_t i = 0; i < 50; i++) {
    EXPECT_EQ(t.out(0, 0, i, 0), 0.0f);
    EXPECT_EQ(t.grad_q(0, 0, i, 0), 0.0f);
    EXPECT_EQ(t.lse(0, 0, i), -std::numeric_limits<float>::infinity());
  }
}

TEST(BlockMask, NaNInHiddenKeysStaysThere) {
  const Sees document = [](std::int64_t i, std::int64_t j) { return i / 100 == j / 100; };
  const Tensor<bool, 4> visible = dense(200, 200, document);
  const AttentionOptions options{.block_mask = make_block_mask(visible.view(), 64, 64)};
  on_every_target([&] {
    const Sizes sizes{.queries = 200, .keys = 200};
    Tensors clean(sizes), poisoned(sizes);
    poisoned.set_keys(100, 199, NAN);
    clean.run(options), poisoned.run(options);
    for (std::int64_t i = 0; i < 100; i++) {
      EXPECT_EQ(clean.out(0, 0, i, 0), poisoned.out(0, 0, i, 0));
      EXPECT_EQ(clean.grad_q(0, 0, i, 0), poisoned.grad_q(0, 0, i, 0));
    }
  });
}

TEST(BlockMask, Errors) {
  const Tensor<bool, 4> visible({1, 1, 10, 20});
  EXPECT_ERROR(make_block_mask(visible.view(), 0, 4), "[make_block_mask]", "query_block: 0");
  Tensors t({.queries = 10, .keys = 21});
  EXPECT_ERROR(t.forward({.block_mask = make_block_mask(visible.view(), 4, 4)}), "block_mask: ", "[1, 1, 3, 5]",
               "10 queries and 21 keys");
  Tensors fits({.queries = 10, .keys = 20});
  Tensor<std::int32_t, 4> map({1, 1, 1, 1});
  map(0, 0, 0, 0) = 3;
  const BlockMask wrong{
      .query_block = 16, .key_block = 64, .blocks = map, .bits = Tensor<std::uint64_t, 3>({2, 16, 1})};
  EXPECT_ERROR(fits.forward({.block_mask = wrong}), "block_mask: 3", "below 2");
  const BlockMask narrow{
      .query_block = 16, .key_block = 65, .blocks = map, .bits = Tensor<std::uint64_t, 3>({4, 16, 1})};
  EXPECT_ERROR(fits.forward({.block_mask = narrow}), "block_mask: ", "[4, 16, 1]", "[4, 16, 2]");
}

}  // namespace
}  // namespace phasor
