// What the queries of a block add to the gradients of keys and values, in pairs of bf16 (products/pairs.h):
//
//   grad_v  [key][channel]  weights by rows [key][lane]               times  grad_out, pairs of queries
//   grad_k  [key][channel]  gradients of scores by rows [key][lane]   times  q, pairs of queries
//
// All lanes of the block are the depth of one product.
#if defined(PHASOR_ATTENTION_PAIR_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_PAIR_GRADIENT_INL_H_
#undef PHASOR_ATTENTION_PAIR_GRADIENT_INL_H_
#else
#define PHASOR_ATTENTION_PAIR_GRADIENT_INL_H_
#endif

#include "pair_arithmetic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Columns that a product of pairs takes at a time.
HWY_INLINE size_t WholeColumns(size_t channels) {
  constexpr size_t kStep = static_cast<size_t>(products::PairMultiplier::kColumns);
  return (channels + kStep - 1) / kStep * kStep;
}

// pairs[i / 2][c] = rows i and i + 1 of some queries; zeros past the last channel. seeing(i): whether row i counts.
template <class Seeing>
inline void RowsToPairs(const StagedRows& rows, size_t count, const Seeing& seeing, float* HWY_RESTRICT pairs) {
  const FloatTag d;
  const size_t columns = WholeColumns(rows.channels);
  HWY_ALIGN float two[2][kLanes];
  for (size_t i = 0; i < count; i += 2, pairs += columns)
    for (size_t c = 0; c < columns; c += kLanes) {
      for (size_t part = 0; part < 2; part++) {
        const size_t left = seeing(i + part) && c < rows.channels ? std::min(kLanes, rows.channels - c) : 0;
        std::copy_n(rows.data + (i + part) * rows.stride + c, left, two[part]);
        std::fill(two[part] + left, two[part] + kLanes, 0.0f);
      }
      hn::StoreU(PairWeights::Pair(hn::Load(d, two[0]), hn::Load(d, two[1])), d, pairs + c);
    }
}

class PairKeyGradients {
 public:
  PairKeyGradients(const detail::AttentionCall& call, size_t lanes, detail::Arena& arena)
      : lanes_(lanes),
        q_columns_(WholeColumns(static_cast<size_t>(call.channels))),
        grad_out_columns_(WholeColumns(static_cast<size_t>(call.value_channels))) {
    q_pairs_ = arena.take(lanes / 2 * q_columns_);
    grad_out_pairs_ = arena.take(lanes / 2 * grad_out_columns_);
    factors_ = arena.take(lanes);
    weights_ = arena.take(kTileSize);
    gradient_ = arena.take(kTileSize);
    weight_rows_ = TakeNarrow(arena, kMostKeys * lanes);
    gradient_rows_ = TakeNarrow(arena, kMostKeys * lanes);
  }

  template <class Factor, class Seeing>
  void LoadQueries(const StagedRows& q, const StagedRows& grad_out, size_t lanes, const Factor& factor,
                   const Seeing& seeing) {
    const auto counts = [&](size_t i) { return seeing(i) != 0.0f; };
    RowsToPairs(q, lanes, counts, q_pairs_);
    RowsToPairs(grad_out, lanes, counts, grad_out_pairs_);
    for (size_t i = 0; i < lanes; i++) factors_[i] = factor(i);
  }

  // Tiles are kept as rows of bf16, so that all panels share them.
  float* weights(size_t /*p*/) const { return weights_; }
  float* gradient(size_t /*p*/) const { return gradient_; }

  HWY_NOINLINE void Keep(const QueryPanel& panel, const KeyBlock& keys, const SeenRows& seen) const {
    const FloatTag d;
    Clear(panel, 0, seen.begin);
    Clear(panel, seen.end, keys.count);
    for (size_t i = seen.begin; i < seen.end; i++)
      for (size_t v = 0; v < kPanel; v += kLanes) {
        const bool is_used = v < panel.vectors * kLanes;
        const FloatVec weight = is_used ? hn::LoadU(d, weights_ + i * kPanel + v) : hn::Zero(d);
        const FloatVec gradient = is_used ? hn::LoadU(d, gradient_ + i * kPanel + v) : hn::Zero(d);
        const size_t to = i * lanes_ + panel.lane + v;
        StoreFloat(weight, d, weight_rows_ + to);
        StoreFloat(hn::Mul(hn::LoadU(d, factors_ + panel.lane + v), gradient), d, gradient_rows_ + to);
      }
  }
  void KeepNothing(const QueryPanel& panel, const KeyBlock& keys) const { Clear(panel, 0, keys.count); }

  void AddTo(size_t panels, size_t last_lanes, const SeenRows* seen, size_t rows, float* grad_v, int64_t v_stride,
             float* grad_k, int64_t k_stride) const {
    size_t begin = rows;
    for (size_t p = 0; p < panels; p++)
      if (!seen[p].empty()) begin = std::min(begin, seen[p].begin);
    const size_t depth = (panels - 1) * kPanel + last_lanes;
    Add(begin, rows, depth, weight_rows_, grad_out_pairs_, grad_out_columns_, grad_v, v_stride);
    Add(begin, rows, depth, gradient_rows_, q_pairs_, q_columns_, grad_k, k_stride);
  }

 private:
  void Clear(const QueryPanel& panel, size_t begin, size_t end) const {
    for (size_t i = begin; i < end; i++)
      for (bf16* rows : {weight_rows_, gradient_rows_}) std::fill_n(rows + i * lanes_ + panel.lane, kPanel, bf16());
  }

  void Add(size_t begin, size_t end, size_t depth, const bf16* rows, const float* pairs, size_t columns, float* to,
           int64_t stride) const {
    multiplier_({.a = rows + begin * lanes_,
                 .a_stride = static_cast<int64_t>(lanes_),
                 .b = reinterpret_cast<const bf16*>(pairs),
                 .b_stride = static_cast<int64_t>(2 * columns),
                 .c = to + static_cast<int64_t>(begin) * stride,
                 .c_stride = stride,
                 .rows = static_cast<int64_t>(end - begin),
                 .columns = static_cast<int64_t>(columns),
                 .pairs = static_cast<int64_t>((depth + 1) / 2),
                 .adds = true});
  }

  const size_t lanes_, q_columns_, grad_out_columns_;
  products::PairMultiplier multiplier_;
  float* q_pairs_ = nullptr;         // words: [lanes / 2][columns]
  float* grad_out_pairs_ = nullptr;  // the same
  float* factors_ = nullptr;         // of the gradients of scores, by lane
  float* weights_ = nullptr;         // tiles of the panel at work
  float* gradient_ = nullptr;
  bf16* weight_rows_ = nullptr;  // [keys][lanes]
  bf16* gradient_rows_ = nullptr;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
