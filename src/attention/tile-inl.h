// The units of work of attention. A panel has as many queries as a tile is wide, one in each lane; a tile has the
// scores of a panel and of a block of keys, [keys][lanes].
#if defined(PHASOR_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_TILE_INL_H_
#undef PHASOR_ATTENTION_TILE_INL_H_
#else
#define PHASOR_ATTENTION_TILE_INL_H_
#endif

#include <cstdint>

#include "base2.h"
#include "products/panel-inl.h"
#include "simd/one_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys are processed in blocks of kKeys; a small remainder joins the last block.
constexpr size_t kKeys = 96, kMostKeys = kKeys + 16;
// Row tiles of the outer products may reach this far past the rows of a panel.
constexpr size_t kTileSize = (kMostKeys + kTileRows) * kPanel;
// The most keys of a row of decoding: a multiple of every vector.
constexpr size_t kDecodeKeys = 64;

// kPanel consecutive queries of a head; lanes from `count` on are not used.
struct QueryPanel {
  int64_t first_query = 0;  // row of the tensor
  int64_t position = 0;     // of lane 0, among the keys of the sequence
  size_t count = 0;
  size_t vectors = 0;  // that hold these lanes
  size_t lane = 0;     // of lane 0 among those of the block of queries
};

// Keys first .. first + count - 1 of the sequence.
struct KeyBlock {
  int64_t first = 0;
  size_t count = 0;
};

// A range of the rows of a block, and the part of it that all lanes see.
struct SeenRows {
  size_t begin = 0, end = 0, all_begin = 0, all_end = 0;
  bool is_full = true;  // a mask of blocks hides none of them
  bool empty() const { return begin >= end; }
  size_t count() const { return end - begin; }
};

// A tile: row i is key first_key + i of the sequence.
struct TilePlace {
  const QueryPanel& panel;
  int64_t first_key;
  size_t rows;
};

// A row of decoding: one query and keys first_key .. first_key + keys - 1 of the sequence.
struct RowPlace {
  int64_t head, query;  // query: row of the tensor
  int64_t position;     // of the query, among the keys of the sequence
  int64_t first_key;
  size_t keys;
};

// row[j] += bias[j] in base 2, up to a whole vector. A bias of -infinity hides the key whatever its score was, NaN
// included.
HWY_INLINE void AddToRow(size_t keys, const float* HWY_RESTRICT bias, float* HWY_RESTRICT row) {
  const FloatTag d;
  const FloatVec hidden = hn::Set(d, -detail::kInfinity);
  for (size_t j = 0; j < keys; j += kLanes) {
    const FloatVec added = hn::LoadU(d, bias + j);
    const FloatVec score = MulAddOnce(d, added, detail::kLog2E, hn::LoadU(d, row + j));
    hn::StoreU(hn::IfThenElse(hn::Eq(added, hidden), hidden, score), d, row + j);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
