#include "phasor/attention/block_mask.h"

#include <algorithm>
#include <vector>

#include "phasor/core/check.h"

namespace phasor {
namespace {

constexpr const char* kName = "make_block_mask";

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The visible pairs of one block.
struct Block {
  std::vector<std::uint64_t> words;  // [query_block][words of a row]
  bool any = false, all = true;

  Block(const TensorView<const bool, 2>& visible, std::int64_t first_query, std::int64_t first_key,
        std::int64_t query_block, std::int64_t key_block)
      : words(static_cast<std::size_t>(query_block * ceil_divide(key_block, 64))) {
    const std::int64_t row_words = ceil_divide(key_block, 64);
    const std::int64_t queries = std::min(query_block, visible.shape[0] - first_query);
    const std::int64_t keys = std::min(key_block, visible.shape[1] - first_key);
    for (std::int64_t i = 0; i < queries; i++)
      for (std::int64_t j = 0; j < keys; j++) {
        const bool seen = visible(first_query + i, first_key + j);
        any = any || seen, all = all && seen;
        if (seen) words[static_cast<std::size_t>(i * row_words + j / 64)] |= std::uint64_t{1} << (j % 64);
      }
  }
};

}  // namespace

BlockMask make_block_mask(const TensorView<const bool, 4>& visible, std::int64_t query_block, std::int64_t key_block) {
  PHASOR_CHECK(query_block >= 1 && key_block >= 1, kName, "query_block: ", query_block, " beside key_block ", key_block,
               ", expected at least 1");
  const auto [batch, heads, queries, keys] = visible.shape;
  Tensor<std::int32_t, 4> blocks({batch, heads, ceil_divide(queries, query_block), ceil_divide(keys, key_block)});
  std::vector<std::uint64_t> words;
  std::int32_t partial = 0;
  for (std::int64_t b = 0; b < batch; b++)
    for (std::int64_t h = 0; h < heads; h++)
      for (std::int64_t i = 0; i < blocks.shape()[2]; i++)
        for (std::int64_t j = 0; j < blocks.shape()[3]; j++) {
          const Block block(visible[b][h], i * query_block, j * key_block, query_block, key_block);
          blocks(b, h, i, j) = !block.any ? BlockMask::kEmpty : block.all ? BlockMask::kFull : partial++;
          if (block.any && !block.all) words.insert(words.end(), block.words.begin(), block.words.end());
        }
  Tensor<std::uint64_t, 3> bits({partial, query_block, ceil_divide(key_block, 64)});
  std::ranges::copy(words, bits.begin());
  return {query_block, key_block, std::move(blocks), std::move(bits)};
}

}  // namespace phasor
