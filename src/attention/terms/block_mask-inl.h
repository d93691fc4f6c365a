// A mask of blocks (phasor/attention/block_mask.h). Tiles that no query sees are skipped, rows of a tile that none sees
// are cut off, and the bits of partial blocks hide the rest.
#ifndef PHASOR_ATTENTION_TERMS_BLOCK_MASK_H_
#define PHASOR_ATTENTION_TERMS_BLOCK_MASK_H_

#include <algorithm>
#include <cstdint>

#include "call.h"
#include "check_shapes.h"

namespace phasor::detail {

struct BlockMaskOption {
  static void check(const char* function, const AttentionCall& call) {
    if (!call.options.block_mask) return;
    const BlockMask& mask = *call.options.block_mask;
    PHASOR_CHECK(mask.query_block >= 1 && mask.key_block >= 1, function, "block_mask: blocks of ", mask.query_block,
                 " queries and ", mask.key_block, " keys, expected at least 1");
    const auto count = [](std::int64_t size, std::int64_t block) { return (size + block - 1) / block; };
    const std::int64_t rows = count(call.queries, mask.query_block), columns = count(call.keys, mask.key_block);
    const Shape<4>& shape = mask.blocks.shape;
    PHASOR_CHECK((shape[0] == 1 || shape[0] == call.batch) && (shape[1] == 1 || shape[1] == call.heads) &&
                     shape[2] == rows && shape[3] == columns,
                 function, "block_mask: a map of shape ", shape_text(shape), ", expected [", call.batch, " or 1, ",
                 call.heads, " or 1, ", rows, ", ", columns, "] for ", call.queries, " queries and ", call.keys,
                 " keys");
    check_data(function, "block_mask", mask.blocks.data, shape);
    const Shape<3> bits{mask.bits.shape[0], mask.query_block, count(mask.key_block, 64)};
    check_shape(function, "block_mask", mask.bits.shape, bits, "[partial blocks, query_block, key_block / 64]");
    check_rows(function, "block_mask", mask.bits.shape, mask.bits.strides);
    check_numbers(function, mask);
  }

  static void list_inputs(const AttentionCall& call, List<Extent>& inputs) {
    if (!call.options.block_mask) return;
    inputs.push_back(extent("block_mask", call.options.block_mask->blocks));
    inputs.push_back(extent("block_mask", call.options.block_mask->bits));
  }

 private:
  // A number that is none of a partial block would read foreign memory.
  static void check_numbers(const char* function, const BlockMask& mask) {
    const TensorView<const std::int32_t, 4>& blocks = mask.blocks;
    for (std::int64_t b = 0; b < blocks.shape[0]; b++)
      for (std::int64_t h = 0; h < blocks.shape[1]; h++)
        for (std::int64_t i = 0; i < blocks.shape[2]; i++)
          for (std::int64_t j = 0; j < blocks.shape[3]; j++) {
            const std::int32_t block = blocks(b, h, i, j);
            PHASOR_CHECK(
                block == BlockMask::kEmpty || block == BlockMask::kFull || (block >= 0 && block < mask.bits.shape[0]),
                function, "block_mask: ", block, " in the map, expected ", BlockMask::kEmpty, ", ", BlockMask::kFull,
                " or a number below ", mask.bits.shape[0], ", the partial blocks");
          }
  }
};

}  // namespace phasor::detail
#endif

#if defined(PHASOR_ATTENTION_TERMS_BLOCK_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_TERMS_BLOCK_MASK_INL_H_
#undef PHASOR_ATTENTION_TERMS_BLOCK_MASK_INL_H_
#else
#define PHASOR_ATTENTION_TERMS_BLOCK_MASK_INL_H_
#endif

#include <bit>

#include "scratch/scratch.h"
#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

class BlockMaskTerm {
 public:
  BlockMaskTerm(const detail::AttentionCall& call, const detail::Sequence& sequence, detail::Arena& arena)
      : sequence_(sequence), mask_(call.options.block_mask ? &*call.options.block_mask : nullptr) {
    if (!mask_) return;
    rows_ = arena.take(kPanel * kMostKeys);
    tile_ = arena.take(kTileSize);
  }

  void Load(const detail::QueryBlock& block) { head_ = block.head; }
  explicit operator bool() const { return mask_ != nullptr; }

  // The first key after `first` where a block of keys should end: tiles of whole words of bits, which do not cross
  // blocks of the mask, are most often empty or full.
  int64_t KeysEnd(int64_t first, int64_t end) const {
    constexpr int64_t kWord = 64, kMost = static_cast<int64_t>(kMostKeys);
    const int64_t block = mask_->key_block;
    const int64_t step = block % kWord == 0 ? kWord
                         : block <= kMost   ? kMost / block * block
                                            : static_cast<int64_t>(kKeys);
    const int64_t key = sequence_.first_key + first;
    return std::min(end, (key / step + 1) * step - sequence_.first_key);
  }

  // Cuts rows off both ends that no query of the panel sees. Returns whether every query sees all that remain.
  bool Trim(const QueryPanel& panel, const KeyBlock& keys, SeenRows& seen) const {
    const int32_t only = OnlyBlock(panel, keys);
    if (only == BlockMask::kFull) return true;
    if (only == BlockMask::kEmpty) {
      seen = {};
      return true;
    }
    Words words;
    for (size_t z = 0; z < panel.count; z++) words.Add(*this, panel.first_query + static_cast<int64_t>(z), keys);
    while (seen.begin < seen.end && !words.any.At(seen.begin)) seen.begin++;
    while (seen.begin < seen.end && !words.any.At(seen.end - 1)) seen.end--;
    seen.all_begin = std::clamp(seen.all_begin, seen.begin, seen.end);
    seen.all_end = std::clamp(seen.all_end, seen.all_begin, seen.end);
    for (size_t i = seen.begin; i < seen.end; i++)
      if (!words.all.At(i)) return false;
    return true;
  }

  // A hidden score becomes -infinity whatever it was, NaN included.
  HWY_NOINLINE void Apply(const TilePlace& place, float* HWY_RESTRICT tile) const {
    const FloatTag d;
    for (size_t lane = 0; lane < kPanel; lane++) {
      float* to = rows_ + lane * kMostKeys;
      std::fill(to + place.rows, to + WholeSquares(place.rows), 0.0f);
      if (lane < place.panel.count)
        ReadRow(head_, place.panel.first_query + static_cast<int64_t>(lane), place.first_key, place.rows, to);
      else
        std::fill_n(to, place.rows, 0.0f);
    }
    RowsToPanel(rows_, kMostKeys, place.rows, 1.0f, tile_);
    const FloatVec hidden = hn::Set(d, -detail::kInfinity);
    for (size_t i = 0; i < place.rows * kPanel; i += kLanes) {
      const auto hides = hn::Eq(hn::LoadU(d, tile_ + i), hidden);
      hn::StoreU(hn::IfThenElse(hides, hidden, hn::LoadU(d, tile + i)), d, tile + i);
    }
  }

  // Decoding: whether the query sees one of the keys.
  bool SeesAny(const RowPlace& place) const {
    const KeyBlock keys{.first = place.first_key, .count = place.keys};
    Words words;
    words.Add(*this, place.head, place.query, keys);
    for (size_t j = 0; j < place.keys; j++)
      if (words.any.At(j)) return true;
    return false;
  }

  void ApplyRow(const RowPlace& place, float* HWY_RESTRICT row) const {
    if (!mask_) return;
    HWY_ALIGN float hides[kDecodeKeys] = {};
    ReadRow(place.head, place.query, place.first_key, place.keys, hides);
    AddToRow(place.keys, hides, row);
  }

 private:
  // Bits of the keys of a block of keys.
  struct KeyBits {
    static constexpr size_t kWords = (kMostKeys + 63) / 64;
    uint64_t words[kWords];
    bool At(size_t i) const { return (words[i / 64] >> (i % 64)) & 1; }
  };

  // Which of the keys some of the queries see, and which all of them see.
  struct Words {
    KeyBits any{}, all;

    Words() { std::fill_n(all.words, KeyBits::kWords, ~uint64_t{0}); }
    void Add(const BlockMaskTerm& mask, int64_t query, const KeyBlock& keys) { Add(mask, mask.head_, query, keys); }
    void Add(const BlockMaskTerm& mask, int64_t head, int64_t query, const KeyBlock& keys) {
      KeyBits bits{};
      mask.ReadBits(head, query, keys.first, keys.count, bits.words);
      for (size_t i = 0; i < KeyBits::kWords; i++) any.words[i] |= bits.words[i], all.words[i] &= bits.words[i];
    }
  };

  // The block of the mask that all queries and keys are in; a partial one if they are in several.
  int32_t OnlyBlock(const QueryPanel& panel, const KeyBlock& keys) const {
    const int64_t query = panel.first_query, last_query = query + static_cast<int64_t>(panel.count) - 1;
    const int64_t key = sequence_.first_key + keys.first, last_key = key + static_cast<int64_t>(keys.count) - 1;
    const bool one = query / mask_->query_block == last_query / mask_->query_block &&
                     key / mask_->key_block == last_key / mask_->key_block;
    return one ? BlockOf(head_, query, key) : 0;
  }

  int32_t BlockOf(int64_t head, int64_t query, int64_t key) const {
    const TensorView<const int32_t, 4>& blocks = mask_->blocks;
    return blocks(blocks.shape[0] == 1 ? 0 : sequence_.batch, blocks.shape[1] == 1 ? 0 : head,
                  query / mask_->query_block, key / mask_->key_block);
  }

  // Calls body(first, end, block) for runs of keys of the sequence that are in one block of the mask.
  template <class Body>
  void ForEachRun(int64_t head, int64_t query, int64_t first, size_t count, const Body& body) const {
    const int64_t begin = sequence_.first_key + first, end = begin + static_cast<int64_t>(count);
    for (int64_t key = begin; key < end;) {
      const int64_t next = std::min(end, (key / mask_->key_block + 1) * mask_->key_block);
      body(key, next, BlockOf(head, query, key));
      key = next;
    }
  }
  const uint64_t* RowOf(int32_t block, int64_t query) const {
    const TensorView<const uint64_t, 3>& bits = mask_->bits;
    return bits.data + block * bits.strides[0] + query % mask_->query_block * bits.strides[1];
  }

  // Bit i of `to` is key first + i of the sequence.
  void ReadBits(int64_t head, int64_t query, int64_t first, size_t count, uint64_t* to) const {
    const int64_t origin = sequence_.first_key + first;
    ForEachRun(head, query, first, count, [&](int64_t key, int64_t end, int32_t block) {
      if (block == BlockMask::kEmpty) return;
      const uint64_t* row = block == BlockMask::kFull ? nullptr : RowOf(block, query);
      while (key < end) {  // as many bits as fit both words
        const int64_t in_block = key % mask_->key_block, at = key - origin;
        const int64_t bits = std::min({end - key, 64 - in_block % 64, 64 - at % 64});
        uint64_t word = row ? row[in_block / 64] >> (in_block % 64) : ~uint64_t{0};
        if (bits < 64) word &= (uint64_t{1} << bits) - 1;
        to[at / 64] |= word << (at % 64);
        key += bits;
      }
    });
  }

  // to[i] = 0 where the query sees key first + i of the sequence, else -infinity.
  void ReadRow(int64_t head, int64_t query, int64_t first, size_t count, float* to) const {
    KeyBits bits{};
    ReadBits(head, query, first, count, bits.words);
    for (size_t i = 0; i < count; i++) to[i] = bits.At(i) ? 0.0f : -detail::kInfinity;
  }

  const detail::Sequence& sequence_;
  const BlockMask* mask_;
  int64_t head_ = 0;
  float* rows_ = nullptr;  // [kPanel][kMostKeys]
  float* tile_ = nullptr;  // [kMostKeys][kPanel]
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
