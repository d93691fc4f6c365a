// Gradients of scores, and the products that carry them to q, k and v.
#if defined(PHASOR_ATTENTION_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_GRADIENT_INL_H_
#undef PHASOR_ATTENTION_GRADIENT_INL_H_
#else
#define PHASOR_ATTENTION_GRADIENT_INL_H_
#endif

#include "float_arithmetic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// gradient = d loss / d score = weight * (d loss / d weight - delta), in place of d loss / d weight, for N vectors of
// lanes. A weight of 0 hides its value. With dropout, weights are then multiplied by their factors, as in the products
// with values.
template <size_t N, bool kDrops>
HWY_INLINE void ScoreGradientOf(size_t rows, const float* HWY_RESTRICT delta, const float* HWY_RESTRICT factors,
                                float* HWY_RESTRICT weights, float* HWY_RESTRICT gradient) {
  const FloatTag d;
  FloatVec common[N];
#pragma GCC unroll 4
  for (size_t v = 0; v < N; v++) common[v] = hn::LoadU(d, delta + v * kLanes);
  for (size_t i = 0; i < rows; i++) {
#pragma GCC unroll 4
    for (size_t v = 0; v < N; v++) {
      const size_t at = i * kPanel + v * kLanes;
      const FloatVec weight = hn::LoadU(d, weights + at);
      FloatVec g = hn::LoadU(d, gradient + at);
      if constexpr (kDrops) {
        const FloatVec factor = hn::LoadU(d, factors + at);
        g = hn::Mul(g, factor);
        hn::StoreU(hn::Mul(weight, factor), d, weights + at);
      }
      g = hn::Mul(weight, hn::Sub(g, common[v]));
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), g), d, gradient + at);
    }
  }
}

// factors: of dropout, or nullptr.
inline HWY_NOINLINE void ScoreGradient(size_t vectors, size_t rows, const float* HWY_RESTRICT delta,
                                       const float* HWY_RESTRICT factors, float* HWY_RESTRICT weights,
                                       float* HWY_RESTRICT gradient) {
  WithVectors(vectors, [&]<size_t N>() PHASOR_TILE_LAMBDA {
    if (factors)
      ScoreGradientOf<N, true>(rows, delta, factors, weights, gradient);
    else
      ScoreGradientOf<N, false>(rows, delta, factors, weights, gradient);
  });
}

// Columns of rows, row i times factor(i), packed: strip s holds columns s * kPanel .. of all rows, [row][kPanel], zero
// past the last column. A factor of 0 gives 0 whatever the row has.
template <class Factor>
inline void RowsToStrips(const StagedRows& rows, size_t count, const Factor& factor_of, float* HWY_RESTRICT strips) {
  const FloatTag d;
  for (size_t first = 0; first < rows.channels; first += kPanel) {
    const size_t columns = std::min(kPanel, rows.channels - first);
    for (size_t i = 0; i < count; i++, strips += kPanel) {
      const float* from = rows.data + i * rows.stride + first;
      const float factor = factor_of(i);
      size_t c = 0;
      if (factor == 0.0f) {
        std::fill_n(strips, kPanel, 0.0f);
        continue;
      }
      for (; c + kLanes <= columns; c += kLanes)
        hn::StoreU(hn::Mul(hn::Set(d, factor), hn::LoadU(d, from + c)), d, strips + c);
      for (; c < kPanel; c++) strips[c] = c < columns ? factor * from[c] : 0.0f;
    }
  }
}

inline size_t StripsSize(size_t rows, size_t channels) { return (channels + kPanel - 1) / kPanel * kPanel * rows; }

// The tiles of one kind of a block of keys: tile p belongs to panel p. It has valid rows (or zeros) wherever a row tile
// that contains one of begin[p] .. end[p] - 1 reaches.
struct PanelTiles {
  float* data = nullptr;
  size_t panels = 0;
  size_t last_lanes = 0;  // of the last panel that have queries; the others are undefined
  const SeenRows* seen = nullptr;
  float* tile(size_t p) const { return data + p * kTileSize; }
};

// gradient[key][c] += sum over queries of tiles[key][query] * strips[query][c]
template <size_t R, size_t N>
HWY_INLINE void AddOuterTile(const PanelTiles& tiles, size_t row, size_t begin, size_t end,
                             const float* HWY_RESTRICT strip, float* HWY_RESTRICT gradient, size_t stride) {
  const FloatTag d;
  Tile<R, N> tile;
  FillTile(tile,
           [&](size_t r, size_t v) PHASOR_TILE_LAMBDA { return hn::LoadU(d, gradient + r * stride + v * kLanes); });
  for (size_t p = begin; p < end; p++) {
    if (tiles.seen[p].begin >= row + R || tiles.seen[p].end <= row) continue;
    Accumulate(tile, p + 1 < tiles.panels ? kPanel : tiles.last_lanes, ByRows{tiles.tile(p) + row * kPanel, kPanel},
               strip + p * kPanel * kPanel, kPanel);
  }
  StoreTile(tile, gradient, stride);
}

inline HWY_NOINLINE void AddOuterProduct(size_t rows, size_t channels, const PanelTiles& tiles,
                                         const float* HWY_RESTRICT strips, float* HWY_RESTRICT gradient,
                                         size_t stride) {
  const size_t strip_size = tiles.panels * kPanel * kPanel;
  ForEachTile<kVectors>(rows, [&]<size_t R>(size_t row) PHASOR_TILE_LAMBDA {
    size_t begin = 0, end = tiles.panels;  // the panels that see one of these keys are among these
    while (begin < end && (tiles.seen[begin].begin >= row + R || tiles.seen[begin].end <= row)) begin++;
    while (begin < end && (tiles.seen[end - 1].begin >= row + R || tiles.seen[end - 1].end <= row)) end--;
    if (begin == end) return;
    const float* strip = strips;
    for (size_t c = 0; c < channels; c += kPanel, strip += strip_size) {
      float* to = gradient + row * stride + c;
      WithVectors(std::min(kVectors, (channels - c + kLanes - 1) / kLanes), [&]<size_t N>() PHASOR_TILE_LAMBDA {
        AddOuterTile<R, N>(tiles, row, begin, end, strip, to, stride);
      });
    }
  });
}

// Zero rows around the rows a panel sees, for the row tiles that reach past them.
inline void ClearAround(const SeenRows& seen, float* HWY_RESTRICT tile) {
  const size_t before = std::min(seen.begin, kTileRows - 1);
  std::fill_n(tile + (seen.begin - before) * kPanel, before * kPanel, 0.0f);
  std::fill_n(tile + seen.end * kPanel, (kTileRows - 1) * kPanel, 0.0f);
}

// What the queries of a block add to the gradients of keys and values, in float.
class FloatKeyGradients {
 public:
  FloatKeyGradients(const detail::AttentionCall& call, size_t lanes, detail::Arena& arena) : call_(call) {
    q_strips_ = arena.take(StripsSize(lanes, static_cast<size_t>(call.channels)));
    grad_out_strips_ = arena.take(StripsSize(lanes, static_cast<size_t>(call.value_channels)));
    weights_ = arena.take(lanes / kPanel * kTileSize);
    gradients_ = arena.take(lanes / kPanel * kTileSize);
  }

  // factor(i): of row i of q; seeing(i): of grad_out. 0 leaves a row out, whatever it has.
  template <class Factor, class Seeing>
  void LoadQueries(const StagedRows& q, const StagedRows& grad_out, size_t lanes, const Factor& factor,
                   const Seeing& seeing) {
    RowsToStrips(q, lanes, factor, q_strips_);
    RowsToStrips(grad_out, lanes, seeing, grad_out_strips_);
  }

  // The tiles of panel p; a row of the block of keys has the same place in all of them.
  float* weights(size_t p) const { return weights_ + p * kTileSize; }
  float* gradient(size_t p) const { return gradients_ + p * kTileSize; }
  // When the tiles are filled.
  void Keep(const QueryPanel& panel, const KeyBlock& /*keys*/, const SeenRows& seen) const {
    ClearAround(seen, weights(panel.lane / kPanel));
    ClearAround(seen, gradient(panel.lane / kPanel));
  }
  void KeepNothing(const QueryPanel& /*panel*/, const KeyBlock& /*keys*/) const {}

  // seen: of each panel. Rows of the gradients begin with the first key of the block.
  void AddTo(size_t panels, size_t last_lanes, const SeenRows* seen, size_t rows, float* grad_v, int64_t v_stride,
             float* grad_k, int64_t k_stride) const {
    AddOuterProduct(rows, static_cast<size_t>(call_.value_channels), {weights_, panels, last_lanes, seen},
                    grad_out_strips_, grad_v, static_cast<size_t>(v_stride));
    AddOuterProduct(rows, static_cast<size_t>(call_.channels), {gradients_, panels, last_lanes, seen}, q_strips_,
                    grad_k, static_cast<size_t>(k_stride));
  }

 private:
  const detail::AttentionCall& call_;
  float* q_strips_ = nullptr;
  float* grad_out_strips_ = nullptr;
  float* weights_ = nullptr;    // a tile for each panel
  float* gradients_ = nullptr;  // a tile for each panel
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
