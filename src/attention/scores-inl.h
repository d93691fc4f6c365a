// Scores of a panel of queries (lanes) against a block of keys (rows), in base 2: the products and all score terms.
#if defined(PHASOR_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_SCORES_INL_H_
#undef PHASOR_ATTENTION_SCORES_INL_H_
#else
#define PHASOR_ATTENTION_SCORES_INL_H_
#endif

#include <cstdint>

#include "call.h"
#include "rows_ahead.h"
#include "terms/terms-inl.h"
#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Both biases, added to a finished product while it is in a register: if sums began with a large bias, each addition
// would be rounded at its size.
struct BothBiases {
  KeyBias::Rows by_key;
  DistanceBias::Rows by_distance;
  HWY_INLINE FloatVec operator()(size_t i, size_t v, FloatVec score) const {
    return by_key(i, v, by_distance(i, v, score));
  }
};

// The keys that some query of a block sees.
struct SeenKeys {
  int64_t begin = 0, end = 0;
  int64_t count() const { return std::max<int64_t>(0, end - begin); }
};

enum class Pass { forward, backward };

// The terms of the scores of one head and one block of queries at a time, all of the same sequence.
class ScoreTerms {
 public:
  // Memory for blocks of up to `queries` queries.
  ScoreTerms(const detail::AttentionCall& call, const detail::Sequence& sequence, int64_t queries, Pass pass,
             detail::Arena& arena)
      : call_(call),
        sequence_(sequence),
        query_scale_(call, sequence),
        softcap_(call, pass == Pass::backward, arena),
        key_bias_(call, sequence),
        distance_bias_(call, sequence, queries, arena),
        mask_(call, sequence, arena),
        block_mask_(call, sequence, arena),
        edges_(call, sequence),
        dropout_(call, sequence, arena) {}

  void Load(const detail::QueryBlock& block) {
    seen_ = {call_.first_seen(block.position()), call_.end_seen(sequence_, block.position() + block.count - 1)};
    query_scale_.Load(block);
    key_bias_.Load(block);
    distance_bias_.Load(block, seen_.begin, seen_.end);
    mask_.Load(block);
    block_mask_.Load(block);
    dropout_.Load(block);
  }

  const SeenKeys& seen() const { return seen_; }
  const QueryScale& query_scale() const { return query_scale_; }
  const Softcap& softcap() const { return softcap_; }
  const DistanceBias& distance_bias() const { return distance_bias_; }
  const Dropout& dropout() const { return dropout_; }

  // The rows of the block that some query of the panel sees.
  SeenRows Seen(const QueryPanel& panel, const KeyBlock& keys) const {
    SeenRows seen = edges_.Seen(panel, keys);
    if (block_mask_ && !seen.empty()) seen.is_full = block_mask_.Trim(panel, keys, seen);
    return seen;
  }
  // Where the block of keys that begins with key `first` ends.
  int64_t KeysEnd(int64_t first) const {
    if (block_mask_) return block_mask_.KeysEnd(first, seen_.end);
    const int64_t left = seen_.end - first;
    return left <= static_cast<int64_t>(kMostKeys) ? seen_.end : first + static_cast<int64_t>(kKeys);
  }
  // Decoding: whether a query may see one of the keys; without a mask of blocks nobody needs to ask.
  bool has_block_mask() const { return static_cast<bool>(block_mask_); }
  bool MaySee(const RowPlace& place) const { return block_mask_.SeesAny(place); }

  // Rows that are prefetched during the products, if any.
  void set_ahead(detail::RowsAhead* ahead) { ahead_ = ahead; }
  detail::RowsAhead* ahead() const { return ahead_; }

  static KeepSum NoEnd(size_t /*row*/, size_t /*vector*/) { return {}; }
  const Edges& edges() const { return edges_; }

  // Whether some term needs to know scores, not only which are hidden.
  bool ReadsScores() const { return softcap_ || key_bias_ || distance_bias_ || mask_; }

  // tile[i][lane] = score of key row seen.begin + i, -infinity where hidden. The arithmetic multiplies; where
  // no term ReadsScores() it may leave a factor to who reads the tile.
  template <class Arithmetic>
  void Scores(const Arithmetic& arithmetic, const QueryPanel& panel, const typename Arithmetic::Keys& keys,
              const SeenRows& seen, float* HWY_RESTRICT tile) const {
    const TilePlace place = PlaceOf(panel, keys, seen);
    if (softcap_ || (!key_bias_ && !distance_bias_))
      arithmetic.MultiplyKeys(*this, panel, keys, seen, tile, NoEnd);
    else
      arithmetic.MultiplyKeys(*this, panel, keys, seen, tile, [&](size_t row, size_t vector) {
        return Biases(panel, keys.first + static_cast<int64_t>(row), vector);
      });
    if (softcap_) softcap_.Apply(panel.vectors, place.rows, Biases(panel, place.first_key, 0), tile);
    if (distance_bias_.hides()) distance_bias_.Hide(place, tile);
    if (mask_) mask_.Apply(place, tile);
    if (!seen.is_full) block_mask_.Apply(place, tile);
    edges_.Apply(panel, keys, seen, tile);
    if (key_bias_) key_bias_.Hide(place, tile);
  }

  // The same for one query of any head: row[j] = q . k_j becomes the score, up to a whole vector.
  void ScoreRow(const RowPlace& place, float* HWY_RESTRICT row) const {
    if (softcap_) softcap_.ApplyRow(place.keys, row);
    key_bias_.ApplyRow(place, row);
    distance_bias_.ApplyRow(place, row);
    mask_.ApplyRow(place, row);
    block_mask_.ApplyRow(place, row);
    edges_.ApplyRow(place, row);
  }

  static TilePlace PlaceOf(const QueryPanel& panel, const KeyBlock& keys, const SeenRows& seen) {
    return {panel, keys.first + static_cast<int64_t>(seen.begin), seen.count()};
  }

 private:
  BothBiases Biases(const QueryPanel& panel, int64_t first_key, size_t first_vector) const {
    return {{key_bias_, first_key}, {distance_bias_, panel, first_key, first_vector}};
  }

  const detail::AttentionCall& call_;
  const detail::Sequence& sequence_;
  QueryScale query_scale_;
  Softcap softcap_;
  KeyBias key_bias_;
  DistanceBias distance_bias_;
  Mask mask_;
  BlockMaskTerm block_mask_;
  Edges edges_;
  Dropout dropout_;
  SeenKeys seen_;
  detail::RowsAhead* ahead_ = nullptr;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
