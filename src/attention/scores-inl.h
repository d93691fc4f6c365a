// Scores of a panel of queries (lanes) against a block of keys (rows), in base 2: everything that comes before softmax.
#if defined(PHASOR_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_SCORES_INL_H_
#undef PHASOR_ATTENTION_SCORES_INL_H_
#else
#define PHASOR_ATTENTION_SCORES_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cstdint>

#include "base2.h"
#include "call.h"
#include "products/panel-inl.h"
#include "rows_ahead.h"
#include "simd/one_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys are processed in blocks of kKeys; a small remainder joins the last block.
constexpr size_t kKeys = 96, kMostKeys = kKeys + 16;
// Row tiles of the outer products may reach this far past the rows of a panel.
constexpr size_t kTileSize = (kMostKeys + kTileRows) * kPanel;

// kPanel consecutive queries of a head; lanes from `count` on are not used.
struct QueryPanel {
  int64_t first_query = 0;  // row of the tensor
  int64_t position = 0;     // of lane 0, among the keys of the sequence
  size_t count = 0;
  size_t vectors = 0;        // that hold these lanes
  const float* q = nullptr;  // [D][kPanel], rotated, times QueryFactor
};

// Keys first .. first + count - 1 of the sequence.
struct KeyBlock {
  int64_t first = 0;
  size_t count = 0;
  const float* k = nullptr;
  const float* v = nullptr;
  size_t k_stride = 0, v_stride = 0;
  const float* second_v = nullptr;
  size_t second_v_stride = 0;
};

// A range of the rows of a block, and the part of it that all lanes see.
struct SeenRows {
  size_t begin = 0, end = 0, all_begin = 0, all_end = 0;
  bool empty() const { return begin >= end; }
};

// Everything but q and k that the scores of one head and one block of queries depend on.
struct Scoring {
  const detail::AttentionCall* call = nullptr;
  const detail::Sequence* sequence = nullptr;
  int64_t head = 0;
  const float* key_bias = nullptr;  // by key of the sequence
  // bias(j - p) = relative[p - first_position + last_key - j]
  const float* relative = nullptr;
  bool relative_hides = false;  // some of these are -infinity
  int64_t first_position = 0, last_key = 0;
  float* mask_rows = nullptr;          // [kPanel][kMostKeys], when there are masks
  float* mask_tile = nullptr;          // [kMostKeys][kPanel]
  detail::RowsAhead* ahead = nullptr;  // prefetched at the same time, if given
};

HWY_INLINE bool HasMasks(const detail::AttentionCall& call) {
  return call.options.visible.data != nullptr || call.options.mask.data != nullptr;
}

// The factor of q in its panel: the scale, and log2(e) unless a softcap is applied before base 2.
inline float QueryFactor(const detail::AttentionCall& call) {
  const double cap = call.options.softcap;
  return static_cast<float>(cap > 0 ? call.scale / cap : call.scale * 1.4426950408889634);
}

inline SeenRows RowsSeen(const Scoring& scoring, const QueryPanel& panel, const KeyBlock& keys) {
  const detail::AttentionCall& call = *scoring.call;
  const int64_t last = panel.position + static_cast<int64_t>(panel.count) - 1;
  const auto row = [&](int64_t key) {
    return static_cast<size_t>(std::clamp<int64_t>(key - keys.first, 0, static_cast<int64_t>(keys.count)));
  };
  SeenRows seen;
  seen.begin = row(call.first_seen(panel.position));
  seen.end = row(call.end_seen(*scoring.sequence, last));
  seen.all_begin = std::min(row(call.first_seen(last)), seen.end);
  seen.all_end = std::clamp(row(call.end_seen(*scoring.sequence, panel.position)), seen.all_begin, seen.end);
  return seen;
}

// Calls body(first row, end row, first vector) for runs of rows that the vectors from the first one see: beyond the
// diagonal the first lanes of a panel do not see the later keys.
template <class Body>
HWY_INLINE void ForEachWedge(const Scoring& scoring, const QueryPanel& panel, const KeyBlock& keys,
                             const SeenRows& seen, const Body& body) {
  const auto lanes = static_cast<int64_t>(kLanes);
  const int64_t diagonal = panel.position + scoring.call->right - 1 - keys.first;  // the last row that lane 0 sees
  for (size_t row = seen.begin; row < seen.end;) {
    const int64_t beyond = static_cast<int64_t>(row) - diagonal;  // the first lane that sees it, if not 0
    const int64_t vector = std::max<int64_t>(0, beyond) / lanes;
    const int64_t end = std::min(diagonal + (vector + 1) * lanes, static_cast<int64_t>(seen.end));
    body(row, static_cast<size_t>(end), static_cast<size_t>(vector));
    row = static_cast<size_t>(end);
  }
}

// relative[x] for x = 0 .. count - 1, from the head's row of the table.
inline void FillRelative(const RelativeBiasView& bias, const Scoring& scoring, size_t count, float* relative) {
  const float* table = bias.table.data + scoring.head * bias.table.strides[0];
  const int64_t span = bias.table.shape[1];
  const int64_t index = scoring.last_key - scoring.first_position - bias.first_distance;  // of x = 0; then descending
  const auto at = [&](int64_t x) { return detail::bounded_bias(table[std::clamp<int64_t>(index - x, 0, span - 1)]); };
  const auto total = static_cast<int64_t>(count);
  const int64_t inside = std::clamp<int64_t>(index - span + 1, 0, total),
                after = std::clamp<int64_t>(index + 1, inside, total);
  std::fill_n(relative, inside, at(0));
  for (int64_t x = inside; x < after; x++) relative[x] = at(x);
  std::fill_n(relative + after, total - after, detail::bounded_bias(table[0]));
}

// Adds the biases of row i and vector v of a tile whose first row and vector are given; an absent bias is a pointer
// that stays on zeros. Biases are added to the finished dot product: if sums began with a large bias, each addition
// would be rounded at its size. The product with log2(e) is added without a separate rounding.
class RowBias {
 public:
  RowBias(const Scoring& scoring, const QueryPanel& panel, int64_t first, size_t first_vector) {
    if (scoring.key_bias) key_ = scoring.key_bias + first, key_step_ = 1;
    if (scoring.relative) {
      relative_ = scoring.relative + (panel.position - scoring.first_position) + (scoring.last_key - first);
      relative_ += first_vector * kLanes;
      relative_step_ = 1;
    }
  }
  HWY_INLINE FloatVec operator()(size_t i, size_t v, FloatVec score) const {
    const FloatTag d;
    const FloatVec key = hn::Set(d, key_[i * key_step_]);
    return MulAddOnce(d, key, detail::kLog2E, MulAddOnce(d, ByDistance(i, v), detail::kLog2E, score));
  }
  HWY_INLINE FloatVec ByDistance(size_t i, size_t v) const {
    return hn::LoadU(FloatTag(), relative_ + v * kLanes - i * relative_step_);
  }

 private:
  alignas(64) static constexpr float kZeros[kPanel] = {};
  const float* key_ = kZeros;
  const float* relative_ = kZeros;
  size_t key_step_ = 0, relative_step_ = 0;
};

// tile = cap(tile) + bias; keeps the tanh itself in `tanh_tile` if given, for its derivative.
inline HWY_NOINLINE void Softcap(size_t vectors, size_t rows, float cap, const RowBias& bias, float* HWY_RESTRICT tile,
                                 float* HWY_RESTRICT tanh_tile) {
  const FloatTag d;
  const FloatVec factor = hn::Set(d, cap * detail::kLog2E);
  for (size_t i = 0; i < rows; i++)
    for (size_t v = 0; v < vectors; v++) {
      float* at = tile + i * kPanel + v * kLanes;
      const FloatVec t = hn::Tanh(d, hn::LoadU(d, at));
      if (tanh_tile) hn::StoreU(t, d, tanh_tile + i * kPanel + v * kLanes);
      hn::StoreU(bias(i, v, hn::Mul(factor, t)), d, at);
    }
}

// Called once per tile: about one line for 32 cycles.
HWY_INLINE void FetchSome(detail::RowsAhead* ahead) {
  if (ahead) ahead->fetch(kTileRows * kVectors);
}

// tile[i][lane] = end(i, vector, a[i] . lanes[lane]).
template <class End>
HWY_NOINLINE void RowProducts(size_t vectors, size_t rows, size_t channels, const float* a, size_t a_stride,
                              const float* lanes, detail::RowsAhead* ahead, float* HWY_RESTRICT tile, const End& end) {
  PanelProduct(
      vectors, rows, channels,
      [&](size_t i) {
        FetchSome(ahead);
        return ByRows{a + i * a_stride, a_stride};
      },
      lanes, tile, [](size_t, size_t) HWY_ATTR { return hn::Zero(FloatTag()); }, end);
}

// A bias of -infinity by distance hides the key whatever its score was, NaN included. Lanes without a query have
// later positions and may see keys that no query sees: these are hidden too.
inline HWY_NOINLINE void HideByDistance(const QueryPanel& panel, size_t rows, const RowBias& bias,
                                        float* HWY_RESTRICT tile) {
  const FloatTag d;
  const FloatVec hidden = hn::Set(d, -detail::kInfinity), last = hn::Set(d, static_cast<float>(panel.count - 1));
  for (size_t v = 0; v < panel.vectors; v++) {
    const auto unused = hn::Gt(hn::Iota(d, static_cast<float>(v * kLanes)), last);
    for (size_t i = 0; i < rows; i++) {
      float* at = tile + i * kPanel + v * kLanes;
      const auto hides = hn::Or(unused, hn::Eq(bias.ByDistance(i, v), hidden));
      hn::StoreU(hn::IfThenElse(hides, hidden, hn::LoadU(d, at)), d, at);
    }
  }
}

// Rows of the masks of a panel's queries as numbers to add: -infinity where hidden.
inline void FillMaskRows(const Scoring& scoring, const QueryPanel& panel, int64_t first_key, size_t count) {
  const AttentionOptions& o = scoring.call->options;
  const auto stride = [](const auto& view, size_t i) { return view.shape[i] == 1 ? 0 : view.strides[i]; };
  const auto row = [&](const auto& view, int64_t query) {
    return view.data + scoring.sequence->batch * stride(view, 0) + scoring.head * stride(view, 1) +
           query * stride(view, 2) + (first_key + scoring.sequence->first_key) * stride(view, 3);
  };
  for (size_t lane = 0; lane < kPanel; lane++) {
    float* to = scoring.mask_rows + lane * kMostKeys;
    std::fill_n(to, WholeSquares(count), 0.0f);
    if (lane >= panel.count) {  // sees nothing
      std::fill_n(to, count, -detail::kInfinity);
      continue;
    }
    const int64_t query = panel.first_query + static_cast<int64_t>(lane);
    if (o.mask.data) {
      const float* from = row(o.mask, query);
      const auto step = static_cast<size_t>(stride(o.mask, 3));
      for (size_t j = 0; j < count; j++) to[j] = detail::bounded_bias(from[j * step]);
    }
    if (o.visible.data != nullptr) {
      const bool* from = row(o.visible, query);
      const auto step = static_cast<size_t>(stride(o.visible, 3));
      for (size_t j = 0; j < count; j++) to[j] = from[j * step] ? to[j] : -detail::kInfinity;
    }
  }
}

// tile += masks. A hidden score becomes -infinity whatever it was, NaN included.
inline HWY_NOINLINE void AddMasks(const Scoring& scoring, const QueryPanel& panel, int64_t first_key, size_t rows,
                                  float* HWY_RESTRICT tile) {
  const FloatTag d;
  FillMaskRows(scoring, panel, first_key, rows);
  RowsToPanel(scoring.mask_rows, kMostKeys, rows, 1.0f, scoring.mask_tile);
  const FloatVec hidden = hn::Set(d, -detail::kInfinity);
  for (size_t i = 0; i < rows * kPanel; i += kLanes) {
    const FloatVec mask = hn::LoadU(d, scoring.mask_tile + i);
    const FloatVec sum = MulAddOnce(d, mask, detail::kLog2E, hn::LoadU(d, tile + i));
    hn::StoreU(hn::IfThenElse(hn::Eq(mask, hidden), hidden, sum), d, tile + i);
  }
}

// Hides rows (keys `first` .. first + rows - 1) from the lanes that do not see them: lane z is at p = position + z
// and sees key j if p - left < j < p + right.
inline HWY_NOINLINE void HideFromLanes(const Scoring& scoring, const QueryPanel& panel, int64_t first, size_t rows,
                                       float* HWY_RESTRICT tile) {
  const FloatTag d;
  const int64_t distance = first - panel.position;
  const auto bound = [&](int64_t x) {  // of row 0, others follow in steps of 1; anything further is out of reach
    return static_cast<float>(std::clamp(x, -1 - static_cast<int64_t>(rows), static_cast<int64_t>(kPanel)));
  };
  const FloatVec one = hn::Set(d, 1.0f), hidden = hn::Set(d, -detail::kInfinity);
  for (size_t v = 0; v < panel.vectors * kLanes; v += kLanes) {
    const FloatVec lane = hn::Iota(d, static_cast<float>(v));
    FloatVec above = hn::Set(d, bound(distance - scoring.call->right));
    FloatVec below = hn::Set(d, bound(distance + scoring.call->left));
    for (size_t i = 0; i < rows; i++) {
      float* at = tile + i * kPanel + v;
      const auto seen = hn::And(hn::Gt(lane, above), hn::Lt(lane, below));
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, at), hidden), d, at);
      above = hn::Add(above, one), below = hn::Add(below, one);
    }
  }
}

HWY_INLINE void HideRow(float* HWY_RESTRICT row) {
  const FloatTag d;
  for (size_t v = 0; v < kVectors; v++) hn::StoreU(hn::Set(d, -detail::kInfinity), d, row + v * kLanes);
}

// tile[i][lane] = a[row seen.begin + i] . panel[lane], where the lane sees the row.
inline void RowDots(const Scoring& scoring, const QueryPanel& panel, const KeyBlock& keys, const SeenRows& seen,
                    size_t channels, const float* a, size_t a_stride, const float* lanes, float* HWY_RESTRICT tile) {
  ForEachWedge(scoring, panel, keys, seen, [&](size_t row, size_t end, size_t vector) {
    RowProducts(panel.vectors - vector, end - row, channels, a + row * a_stride, a_stride, lanes + vector * kLanes,
                scoring.ahead, tile + (row - seen.begin) * kPanel + vector * kLanes, KeepSum());
  });
}

// The same for q and k, with the biases added.
inline void BiasedRowDots(const Scoring& scoring, const QueryPanel& panel, const KeyBlock& keys, const SeenRows& seen,
                          float* HWY_RESTRICT tile) {
  ForEachWedge(scoring, panel, keys, seen, [&](size_t row, size_t end, size_t vector) {
    RowProducts(panel.vectors - vector, end - row, static_cast<size_t>(scoring.call->channels),
                keys.k + row * keys.k_stride, keys.k_stride, panel.q + vector * kLanes, scoring.ahead,
                tile + (row - seen.begin) * kPanel + vector * kLanes,
                RowBias(scoring, panel, keys.first + static_cast<int64_t>(row), vector));
  });
}

// tile[i][lane] = score of key row seen.begin + i, -infinity where hidden.
inline void Scores(const Scoring& scoring, const QueryPanel& panel, const KeyBlock& keys, const SeenRows& seen,
                   float* HWY_RESTRICT tile, float* HWY_RESTRICT tanh_tile) {
  const detail::AttentionCall& call = *scoring.call;
  const size_t rows = seen.end - seen.begin;
  const int64_t first = keys.first + static_cast<int64_t>(seen.begin);
  const auto cap = static_cast<float>(call.options.softcap);
  if (cap > 0 || (!scoring.key_bias && !scoring.relative))
    RowDots(scoring, panel, keys, seen, static_cast<size_t>(call.channels), keys.k, keys.k_stride, panel.q, tile);
  else
    BiasedRowDots(scoring, panel, keys, seen, tile);
  if (cap > 0) Softcap(panel.vectors, rows, cap, RowBias(scoring, panel, first, 0), tile, tanh_tile);
  if (scoring.relative_hides) HideByDistance(panel, rows, RowBias(scoring, panel, first, 0), tile);
  if (HasMasks(call)) AddMasks(scoring, panel, first, rows, tile);
  HideFromLanes(scoring, panel, first, seen.all_begin - seen.begin, tile);
  HideFromLanes(scoring, panel, keys.first + static_cast<int64_t>(seen.all_end), seen.end - seen.all_end,
                tile + (seen.all_end - seen.begin) * kPanel);
  if (scoring.key_bias)
    for (size_t i = 0; i < rows; i++)
      if (scoring.key_bias[first + static_cast<int64_t>(i)] == -detail::kInfinity) HideRow(tile + i * kPanel);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
