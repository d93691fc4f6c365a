// Attention to keys in pages gives the bits of attention to the same keys in place: random calls with every option, on
// every target.
#include <algorithm>
#include <numeric>

#include "attention/random_case.h"
#include "phasor/attention/paged_kv_cache.h"
#include "support/every_target.h"
#include "support/expect_error.h"
#include "support/seeds.h"

namespace phasor {
namespace {

constexpr std::uint32_t kCases = 480, kShards = 4;

// The keys and values of a case in pages, in random order, with pages between them that are not used.
template <class T>
struct PagedCopy {
  std::int64_t page_size = 1;
  std::vector<std::int64_t> lengths;
  Guarded<T, 4> keys, values;
  Tensor<std::int32_t, 2> table;

  PagedCopy(const Case& c, const Inputs<T>& inputs, Draw& draw) {
    page_size = draw.pick<std::int64_t>({1, 3, 16, 16, 17, 64, 256});
    std::int64_t longest = 0, pages = draw.between(1, 3);
    for (std::int64_t s = 0; s < c.sequences(); s++) {
      lengths.push_back(keys_of(c, s));
      longest = std::max(longest, lengths.back());
      pages += pages_of(lengths.back());
    }
    keys = Guarded<T, 4>({pages, c.groups, page_size, c.width}, c.layout);
    values = Guarded<T, 4>({pages, c.groups, page_size, c.value_width}, c.layout);
    std::vector<std::int32_t> order(static_cast<std::size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; i--)
      std::swap(order[i - 1], order[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(i)))]);
    table = Tensor<std::int32_t, 2>({c.sequences(), pages_of(longest) + draw.between(0, 2)});
    std::fill(table.begin(), table.end(), -7);  // what is not read
    for (std::int64_t s = 0; s < c.sequences(); s++)
      for (std::int64_t i = 0; i < pages_of(lengths[static_cast<std::size_t>(s)]); i++) {
        table(s, i) = order.back();
        order.pop_back();
      }
    for (std::int64_t s = 0; s < c.sequences(); s++) copy_sequence(c, inputs, s);
  }

  KvPages<T> pages() const { return {keys.view, values.view, table.view(), lengths}; }

 private:
  std::int64_t pages_of(std::int64_t tokens) const { return (tokens + page_size - 1) / page_size; }

  void copy_sequence(const Case& c, const Inputs<T>& inputs, std::int64_t s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t b = c.key_starts.empty() ? s : 0, first = c.key_starts.empty() ? 0 : c.key_starts[at];
    for (std::int64_t j = 0; j < lengths[at]; j++)
      for (std::int64_t g = 0; g < c.groups; g++) {
        const std::int64_t page = table(s, j / page_size), row = j % page_size;
        std::copy_n(&inputs.k.view(b, g, first + j, 0), c.width, &keys.view(page, g, row, 0));
        std::copy_n(&inputs.v.view(b, g, first + j, 0), c.value_width, &values.view(page, g, row, 0));
      }
  }
};

template <class T>
struct Outputs {
  Guarded<T, 4> out;
  Guarded<float, 3> lse;
  Guarded<float, 4> weights;
  AttentionOutput<T> views;

  explicit Outputs(const Case& c)
      : out({c.batch, c.heads, c.queries, c.value_width}, c.layout),
        lse({c.batch, c.heads, c.queries}, c.lse_layout),
        weights({c.batch, c.heads, c.queries, c.keys}) {
    views.out = out.view;
    if (c.lse) views.lse = lse.view;
    if (c.weights) views.weights = weights.view;
  }
  bool same_bits(const Outputs& other) const {
    return out.same_bits(other.out) && lse.same_bits(other.lse) && weights.same_bits(other.weights);
  }
};

template <class T>
void expect_same_as_in_place(const Case& c) {
  SCOPED_TRACE(testing::Message() << c);
  const Inputs<T> inputs(c);
  Draw draw(c.seed);
  const PagedCopy<T> copy(c, inputs, draw);
  SCOPED_TRACE(testing::Message() << "pages of " << copy.page_size);
  AttentionOptions options = inputs.options;
  options.key_starts = {};
  Outputs<T> in_place(c), paged(c);
  on_every_target([&] {
    for (Outputs<T>* outputs : {&in_place, &paged}) outputs->out.reset(), outputs->lse.reset();
    attention_forward(inputs.q.view, inputs.k.view, inputs.v.view, in_place.views, inputs.options);
    attention_forward(inputs.q.view, copy.pages(), paged.views, options);
    EXPECT_TRUE(in_place.same_bits(paged));
  });
}

// What is refused beside ragged queries is left out of the case.
Case paged_case(std::uint32_t seed) {
  Case c = seed % 2 == 0 ? random_case(seed) : decode_case(seed);
  if (c.query_starts.empty()) return c;
  c.visible.reset(), c.mask.reset(), c.key_bias.reset();
  c.query_block = 0, c.k_rotary.pairs = 0, c.dropout = 0, c.weights = false;
  return c;
}

class RandomPages : public testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomPages, GiveTheBitsOfKeysInPlace) {
  for (const std::uint32_t seed : seeds({.count = kCases, .shard = GetParam(), .shards = kShards})) {
    SCOPED_TRACE(repeat_seed(seed));
    const Case c = paged_case(seed);
    if (seed % 3 == 0)
      expect_same_as_in_place<float>(c);
    else if (seed % 3 == 1)
      expect_same_as_in_place<bf16>(c);
    else
      expect_same_as_in_place<f16>(c);
  }
}
INSTANTIATE_TEST_SUITE_P(Shards, RandomPages, testing::Range(0u, kShards));

// A batch as a server has it: one long prompt, one that goes on, some that are generated.
TEST(PagedAttention, RaggedQueries) {
  Case c;
  c.heads = 4, c.groups = 2, c.width = 40, c.value_width = 24, c.causal = true, c.window.left = 300;
  c.query_starts = {0, 1, 1, 301, 365, 366}, c.key_starts = {0, 700, 711, 1011, 1600, 2300};
  c.queries = 366, c.keys = 2300;
  for (c.seed = 0; c.seed < 6; c.seed++) {
    expect_same_as_in_place<float>(c);
    expect_same_as_in_place<bf16>(c);
  }
}

// Row s of the table may be the row of another sequence: tokens that both have are stored once.
TEST(PagedAttention, SequencesShareAPage) {
  Tensor<float, 4> keys({3, 1, 4, 8}), q({2, 1, 1, 8}), out({2, 1, 1, 8}), alone({1, 1, 1, 8});
  Philox(1).fill_normal(keys);
  Philox(2).fill_normal(q);
  const std::vector<std::int32_t> table{2, 0, 2, 1};
  const std::vector<std::int64_t> lengths{7, 5};
  const KvPages<float> pages{keys.view(), keys.view(), {table.data(), {2, 2}}, lengths};
  attention_forward(q.view(), pages, {.out = out.view()});
  for (std::int64_t b = 0; b < 2; b++) {
    Tensor<float, 4> k({1, 1, lengths[static_cast<std::size_t>(b)], 8});
    for (std::int64_t j = 0; j < k.shape()[2]; j++)
      std::copy_n(&keys(table[static_cast<std::size_t>(2 * b + j / 4)], 0, j % 4, 0), 8, &k(0, 0, j, 0));
    attention_forward(q.view().slice(0, b, 1), k.view(), k.view(), {.out = alone.view()});
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), &out(b, 0, 0, 0)));
  }
}

TEST(PagedAttention, BadPages) {
  Tensor<float, 4> keys({3, 2, 4, 8}), values({3, 2, 4, 6}), q({2, 4, 1, 8}), out({2, 4, 1, 6});
  std::vector<std::int32_t> table{0, 1, 2, -1};
  std::vector<std::int64_t> lengths{8, 3};
  KvPages<float> pages{keys.view(), values.view(), {table.data(), {2, 2}}, lengths};
  AttentionOptions options;
  const auto call = [&] { attention_forward(q.view(), pages, {.out = out.view()}, options); };
  call();
  lengths[1] = 5;
  EXPECT_ERROR(call(), "[attention_forward] block_table: -1", "page 1 of sequence 1", "0 to 2");
  table[3] = 3;
  EXPECT_ERROR(call(), "[attention_forward] block_table: 3", "0 to 2");
  lengths[1] = 9;
  EXPECT_ERROR(call(), "[attention_forward] block_table: shape [2, 2]", "3 pages of 4", "9 of sequence 1");
  lengths[1] = -1;
  EXPECT_ERROR(call(), "[attention_forward] lengths: -1");
  lengths[1] = 3;
  options.key_lengths = std::vector<std::int64_t>{8, 4};
  EXPECT_ERROR(call(), "[attention_forward] key_lengths: 4", "at most 3");
  options = {.key_starts = std::vector<std::int64_t>{0, 11}};
  EXPECT_ERROR(call(), "[attention_forward] key_starts", "block_table");
  options = {.query_starts = std::vector<std::int64_t>{0, 1}};
  EXPECT_ERROR(call(), "[attention_forward] query_starts: 2 numbers", "3");
  options = {};
  pages.lengths = pages.lengths.first(1);
  EXPECT_ERROR(call(), "[attention_forward] lengths: 1 numbers", "2");
  pages.lengths = lengths;
  pages.values = keys.view().slice(0, 0, 2);
  EXPECT_ERROR(call(), "[attention_forward] values: shape [2, 2, 4, 8]", "[3, 2, 4, 8]");
  pages.values = values.view();
  pages.block_table = {table.data(), {1, 2}};
  pages.lengths = pages.lengths.first(1);
  EXPECT_ERROR(call(), "[attention_forward] block_table: shape [1, 2]", "2 sequences");
  pages.keys = keys.view().slice(2, 0, 0), pages.values = values.view().slice(2, 0, 0);
  EXPECT_ERROR(call(), "[attention_forward] keys: shape [3, 2, 0, 8]", "at least one token");
}

// The output may be no part of the pool.
TEST(PagedAttention, OutputApartFromThePool) {
  Tensor<float, 4> keys({3, 1, 4, 8}), q({1, 1, 1, 8});
  const std::vector<std::int32_t> table{0};
  const std::vector<std::int64_t> lengths{4};
  const KvPages<float> pages{keys.view(), keys.view(), {table.data(), {1, 1}}, lengths};
  const TensorView<float, 4> inside = keys.view().slice(0, 2, 1).slice(2, 3, 1);
  EXPECT_ERROR(attention_forward(q.view(), pages, {.out = inside}), "[attention_forward] out", "keys");
}

TEST(PagedAttention, RefusedBesideRaggedQueries) {
  Tensor<float, 4> keys({2, 1, 4, 8}), q({1, 1, 2, 8}), out({1, 1, 2, 8}), weights({1, 1, 2, 8}), mask({1, 1, 1, 8});
  Tensor<float, 3> key_bias({1, 1, 8});
  const std::vector<std::int32_t> table{0, 1};
  const std::vector<std::int64_t> lengths{4, 4}, starts{0, 1, 2};
  const KvPages<float> pages{keys.view(), keys.view(), {table.data(), {2, 1}}, lengths};
  const auto call = [&](AttentionOptions options, const AttentionOutput<float>& output) {
    options.query_starts = starts;
    attention_forward(q.view(), pages, output, options);
  };
  const AttentionOutput<float> plain{.out = out.view()};
  call({}, plain);
  EXPECT_ERROR(call({.mask = mask}, plain), "[attention_forward] mask", "query_starts");
  EXPECT_ERROR(call({.key_bias = key_bias}, plain), "[attention_forward] key_bias", "query_starts");
  EXPECT_ERROR(call({.dropout = 0.5}, plain), "[attention_forward] dropout", "query_starts");
  EXPECT_ERROR(call({}, {.out = out.view(), .weights = weights.view()}), "[attention_forward] weights");
}

}  // namespace
}  // namespace phasor
