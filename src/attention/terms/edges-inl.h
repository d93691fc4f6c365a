// The keys that a query sees by its position: causal, window, key lengths. A query at p sees the keys j of its sequence
// with p - left < j < p + right.
#ifndef PHASOR_ATTENTION_TERMS_EDGES_H_
#define PHASOR_ATTENTION_TERMS_EDGES_H_

#include "call.h"
#include "phasor/core/check.h"

namespace phasor::detail {

struct EdgesOption {
  static void check(const char* function, const AttentionCall& call) {
    const Window& window = call.options.window;
    PHASOR_CHECK(window.left >= 0 && window.right >= 0, function, "window: (", window.left, ", ", window.right,
                 "), expected sizes of at least 0");
  }
};

}  // namespace phasor::detail
#endif

#if defined(PHASOR_ATTENTION_TERMS_EDGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_TERMS_EDGES_INL_H_
#undef PHASOR_ATTENTION_TERMS_EDGES_INL_H_
#else
#define PHASOR_ATTENTION_TERMS_EDGES_INL_H_
#endif

#include <algorithm>

#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

class Edges {
 public:
  Edges(const detail::AttentionCall& call, const detail::Sequence& sequence) : call_(call), sequence_(sequence) {}

  SeenRows Seen(const QueryPanel& panel, const KeyBlock& keys) const {
    const int64_t last = panel.position + static_cast<int64_t>(panel.count) - 1;
    const auto row = [&](int64_t key) {
      return static_cast<size_t>(std::clamp<int64_t>(key - keys.first, 0, static_cast<int64_t>(keys.count)));
    };
    SeenRows seen;
    seen.begin = row(call_.first_seen(panel.position));
    seen.end = row(call_.end_seen(sequence_, last));
    seen.all_begin = std::min(row(call_.first_seen(last)), seen.end);
    seen.all_end = std::clamp(row(call_.end_seen(sequence_, panel.position)), seen.all_begin, seen.end);
    return seen;
  }

  // Calls body(first row, end row, first vector) for runs of rows that the vectors from the first one see: beyond the
  // diagonal the first lanes of a panel do not see the later keys.
  template <class Body>
  HWY_INLINE void ForEachWedge(const QueryPanel& panel, const KeyBlock& keys, const SeenRows& seen,
                               const Body& body) const {
    const auto lanes = static_cast<int64_t>(kLanes);
    const int64_t diagonal = panel.position + call_.right - 1 - keys.first;  // the last row that lane 0 sees
    for (size_t row = seen.begin; row < seen.end;) {
      const int64_t beyond = static_cast<int64_t>(row) - diagonal;  // the first lane that sees it, if not 0
      const int64_t vector = std::max<int64_t>(0, beyond) / lanes;
      const int64_t end = std::min(diagonal + (vector + 1) * lanes, static_cast<int64_t>(seen.end));
      body(row, static_cast<size_t>(end), static_cast<size_t>(vector));
      row = static_cast<size_t>(end);
    }
  }

  // Hides rows from the lanes that do not see them; the tile begins with row seen.begin of the block.
  void Apply(const QueryPanel& panel, const KeyBlock& keys, const SeenRows& seen, float* HWY_RESTRICT tile) const {
    const int64_t first = keys.first + static_cast<int64_t>(seen.begin);
    HideRows({panel, first, seen.all_begin - seen.begin}, tile);
    HideRows({panel, keys.first + static_cast<int64_t>(seen.all_end), seen.end - seen.all_end},
             tile + (seen.all_end - seen.begin) * kPanel);
  }

  // Hides keys from the row's query, and what fills the row up to a whole vector.
  void ApplyRow(const RowPlace& place, float* HWY_RESTRICT row) const {
    const auto count = static_cast<int64_t>(place.keys);
    const int64_t begin = std::clamp<int64_t>(call_.first_seen(place.position) - place.first_key, 0, count);
    const int64_t end = std::clamp<int64_t>(call_.end_seen(sequence_, place.position) - place.first_key, begin, count);
    std::fill(row, row + begin, -detail::kInfinity);
    std::fill(row + end, row + (place.keys + kLanes - 1) / kLanes * kLanes, -detail::kInfinity);
  }

 private:
  // Lane z is at p = panel.position + z.
  HWY_NOINLINE void HideRows(const TilePlace& place, float* HWY_RESTRICT tile) const {
    const FloatTag d;
    const int64_t distance = place.first_key - place.panel.position, rows = static_cast<int64_t>(place.rows);
    const auto bound = [&](int64_t x) {  // of row 0, others follow in steps of 1; anything further is out of reach
      return static_cast<float>(std::clamp(x, -1 - rows, static_cast<int64_t>(kPanel)));
    };
    const FloatVec one = hn::Set(d, 1.0f), hidden = hn::Set(d, -detail::kInfinity);
    for (size_t v = 0; v < place.panel.vectors * kLanes; v += kLanes) {
      const FloatVec lane = hn::Iota(d, static_cast<float>(v));
      FloatVec above = hn::Set(d, bound(distance - call_.right));
      FloatVec below = hn::Set(d, bound(distance + call_.left));
      for (size_t i = 0; i < place.rows; i++) {
        float* at = tile + i * kPanel + v;
        const auto seen = hn::And(hn::Gt(lane, above), hn::Lt(lane, below));
        hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, at), hidden), d, at);
        above = hn::Add(above, one), below = hn::Add(below, one);
      }
    }
  }

  const detail::AttentionCall& call_;
  const detail::Sequence& sequence_;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
