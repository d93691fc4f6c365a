// Shared by forward and backward and by both arithmetics: a block of queries staged as panels, and the loop over the
// blocks of keys that it sees.
#if defined(PHASOR_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_BLOCK_INL_H_
#undef PHASOR_ATTENTION_BLOCK_INL_H_
#else
#define PHASOR_ATTENTION_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "job.h"
#include "rows.h"
#include "scores-inl.h"
#include "scratch/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of a tensor as floats: in place, or copied, with zeros past the last row up to whole panels and past the last
// channel up to whole squares.
struct StagedRows {
  const float* data = nullptr;
  size_t stride = 0, channels = 0;

  size_t panel_rows() const { return WholeSquares(channels); }
};

inline size_t WholePanels(int64_t queries) { return (static_cast<size_t>(queries) + kPanel - 1) / kPanel * kPanel; }

// Memory for such copies.
inline float* TakeRows(detail::Arena& arena, int64_t queries, int64_t channels) {
  return arena.take(WholePanels(queries) * WholeSquares(static_cast<size_t>(channels)));
}

// Whether panels can be made directly from, or written directly to, the float rows of the tensor.
inline bool HoldsWholePanels(const Shape<4>& shape, detail::ElementType type, int64_t queries) {
  return type == detail::ElementType::float32 && queries % static_cast<int64_t>(kPanel) == 0 &&
         shape[3] % static_cast<int64_t>(kSquare) == 0;
}

// Writes zeros where the rows do not fill the buffer.
inline void ClearAroundRows(int64_t rows, size_t channels, float* buffer) {
  const size_t stride = WholeSquares(channels);
  const size_t filled = stride == channels ? static_cast<size_t>(rows) : 0;
  std::fill_n(buffer + filled * stride, (WholePanels(rows) - filled) * stride, 0.0f);
}

inline StagedRows ReadQueries(const detail::AnyView& x, const detail::QueryBlock& block,
                              const std::optional<RotaryView>& rotation, float* buffer) {
  const auto channels = static_cast<size_t>(x.shape[3]);
  if (!rotation && HoldsWholePanels(x.shape, x.type, block.count)) {
    const float* rows = &x.as<const float>()(block.sequence->batch, block.head, block.first, 0);
    return {rows, static_cast<size_t>(x.strides[2]), channels};
  }
  const size_t stride = WholeSquares(channels);
  ClearAroundRows(block.count, channels, buffer);
  detail::read_rows(x, block.sequence->batch, block.head, block.first, block.count, rotation, buffer,
                    static_cast<int64_t>(stride));
  return {buffer, stride, channels};
}

// Panels of the rows, one after the other: [panel][panel_rows][kPanel].
inline void RowsToPanels(const StagedRows& rows, int64_t queries, float factor, float* HWY_RESTRICT panels) {
  for (size_t first = 0; first < static_cast<size_t>(queries); first += kPanel)
    RowsToPanel(rows.data + first * rows.stride, rows.stride, rows.channels, factor,
                panels + first * rows.panel_rows());
}

inline QueryPanel PanelOf(const detail::QueryBlock& block, size_t first) {
  QueryPanel panel;
  panel.first_query = block.first + static_cast<int64_t>(first);
  panel.position = block.position() + static_cast<int64_t>(first);
  panel.count = std::min(kPanel, static_cast<size_t>(block.count) - first);
  panel.vectors = (panel.count + kLanes - 1) / kLanes;
  panel.lane = first;
  return panel;
}

// Calls body(keys) for the blocks of keys that the queries see, in order.
template <class Arithmetic, class Body>
HWY_INLINE void ForEachKeyBlock(const Arithmetic& arithmetic, const detail::QueryBlock& block, const ScoreTerms& terms,
                                const Body& body) {
  for (int64_t first = terms.seen().begin; first < terms.seen().end;) {
    const int64_t count = terms.KeysEnd(first) - first;
    body(arithmetic.LoadKeys(block, {first, static_cast<size_t>(count)}));
    first += count;
  }
}

// Whether one of the first `count` lanes has a NaN.
inline HWY_NOINLINE bool HasNaN(size_t channels, size_t count, const float* HWY_RESTRICT panel) {
  const FloatTag d;
  HWY_ALIGN float sums[kPanel];
  Tile<1, kVectors> tile;
  FillTile(tile, [&](size_t, size_t) HWY_ATTR { return hn::Zero(d); });
  for (size_t c = 0; c < channels; c++)
    FillTile(tile, [&](size_t, size_t v)
                       HWY_ATTR { return hn::Add(tile.c[0][v], hn::LoadU(d, panel + c * kPanel + v * kLanes)); });
  StoreTile(tile, sums, kPanel);
  return std::any_of(sums, sums + count, [](float sum) { return sum != sum; });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
