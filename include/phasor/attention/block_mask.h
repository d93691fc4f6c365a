// A mask in two levels: a map of blocks of queries and keys that are empty, full or partial, and the bits of the
// partial ones. Attention skips empty blocks, so its time follows the number of visible pairs: documents packed into
// one sequence, sliding windows, prefixes, trees.
#pragma once

#include <cstdint>

#include "phasor/core/input.h"
#include "phasor/core/tensor.h"

namespace phasor {

// Query i and key j, rows of q and k, are in block (i / query_block, j / key_block).
struct BlockMask {
  static constexpr std::int32_t kEmpty = -1, kFull = -2;  // no query of the block sees a key of it; every one sees all

  std::int64_t query_block = 128, key_block = 128;
  // [B or 1, H or 1, ceil(T / query_block), ceil(S / key_block)]: kEmpty, kFull, or the number of a partial block.
  TensorInput<std::int32_t, 4> blocks{};
  // [partial blocks, query_block, ceil(key_block / 64)]: bit j % 64 of word j / 64 of a row says whether the query sees
  // key j of the block. Bits past the last query or key do not matter.
  TensorInput<std::uint64_t, 3> bits{};
};

// From a mask [B or 1, H or 1, T, S] of bool, true where the query may see the key.
BlockMask make_block_mask(const TensorView<const bool, 4>& visible, std::int64_t query_block = 128,
                          std::int64_t key_block = 128);

}  // namespace phasor
