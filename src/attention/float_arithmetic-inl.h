// The products of attention in float: keys and values are rows of floats, in place where they can be, and queries are
// panels of floats times the factor of their scores.
#if defined(PHASOR_ATTENTION_FLOAT_ARITHMETIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_FLOAT_ARITHMETIC_INL_H_
#undef PHASOR_ATTENTION_FLOAT_ARITHMETIC_INL_H_
#else
#define PHASOR_ATTENTION_FLOAT_ARITHMETIC_INL_H_
#endif

#include "block-inl.h"
#include "softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

// panel[c] = factor * panel[c] + sum over keys of a[key][c] * tile[key]: the weighted sum of rows of values (or, for
// gradients, of keys), channels in rows.
inline HWY_NOINLINE void AddWeightedRows(size_t vectors, size_t channels, size_t keys, const float* a, size_t a_stride,
                                         const float* HWY_RESTRICT tile, const float* HWY_RESTRICT factor,
                                         float* HWY_RESTRICT panel, detail::RowsAhead* ahead) {
  const FloatTag d;
  PanelProduct(
      vectors, channels, keys,
      [&](size_t c) {
        FetchSome(ahead);
        return ByColumns{a + c, a_stride};
      },
      tile, panel,
      [&](size_t c, size_t v) HWY_ATTR {
        return hn::Mul(hn::LoadU(d, factor + v * kLanes), hn::LoadU(d, panel + c * kPanel + v * kLanes));
      },
      KeepSum());
}

// The same, but a row with NaN or infinity is not multiplied by a weight of 0, which hides it.
inline HWY_NOINLINE void AddWeightedRowsCarefully(size_t vectors, size_t channels, size_t keys, const float* a,
                                                  size_t a_stride, const float* HWY_RESTRICT tile,
                                                  const float* HWY_RESTRICT factor, float* HWY_RESTRICT panel,
                                                  detail::RowsAhead* /*ahead*/) {
  const FloatTag d;
  for (size_t v = 0; v < vectors * kLanes; v += kLanes)
    for (size_t c = 0; c < channels; c++) {
      FloatVec sum = hn::Mul(hn::LoadU(d, factor + v), hn::LoadU(d, panel + c * kPanel + v));
      for (size_t j = 0; j < keys; j++) {
        const FloatVec weight = hn::LoadU(d, tile + j * kPanel + v);
        const FloatVec added = hn::MulAdd(weight, hn::Set(d, a[j * a_stride + c]), sum);
        sum = hn::IfThenElse(hn::Eq(weight, hn::Zero(d)), sum, added);
      }
      hn::StoreU(sum, d, panel + c * kPanel + v);
    }
}

struct FloatKeys : KeyBlock {
  const float* k = nullptr;
  const float* v = nullptr;
  size_t k_stride = 0, v_stride = 0;
  const float* second_v = nullptr;
  size_t second_v_stride = 0;
};

class FloatArithmetic {
 public:
  using Keys = FloatKeys;
  FloatArithmetic(const detail::Job& job, int64_t queries, detail::Arena& arena)
      : job_(job), call_(*job.call), panels_(TakeRows(arena, queries, job.call->channels)) {
    const auto take = [&](const detail::KeySource& source) {
      return source.needs_buffer() ? arena.take(kMostKeys * static_cast<size_t>(source.buffer_stride())) : nullptr;
    };
    k_buffer_ = take(job.k), v_buffer_ = take(job.v);
    if (job.second_v) second_v_buffer_ = take(*job.second_v);
  }

  // Panels of the rows of some queries of the block, from a lane on.
  void LoadQueries(const StagedRows& rows, const detail::QueryBlock& part, size_t lane, const ScoreTerms& terms) {
    float* panels = panels_ + lane * rows.panel_rows();
    RowsToPanels(rows, part.count, terms.softcap().QueryFactor(), panels);
    if (!terms.query_scale()) return;
    for (int64_t first = 0; first < part.count; first += static_cast<int64_t>(kPanel))
      terms.query_scale().ScalePanel(part.first + first, part.count - first, rows.channels,
                                     panels + static_cast<size_t>(first) * rows.panel_rows());
  }

  // Backward: panels of the gradients by the results, which stay in place.
  void LoadGradOut(const StagedRows& rows, int64_t /*count*/, const float* panels) {
    grad_out_panels_ = panels, grad_out_rows_ = rows.panel_rows();
  }

  Keys LoadKeys(const detail::QueryBlock& block, const KeyBlock& keys) const {
    const int64_t b = block.sequence->batch, group = block.head / call_.group();
    const int64_t row = block.sequence->first_key + keys.first, count = static_cast<int64_t>(keys.count);
    const detail::FloatRows k = job_.k.rows(b, group, row, count, k_buffer_);
    const detail::FloatRows v = job_.v.rows(b, group, row, count, v_buffer_);
    detail::FloatRows second_v;
    if (job_.second_v) second_v = job_.second_v->rows(b, group, row, count, second_v_buffer_);
    return {keys,
            k.data,
            v.data,
            static_cast<size_t>(k.stride),
            static_cast<size_t>(v.stride),
            second_v.data,
            static_cast<size_t>(second_v.stride)};
  }

  // tile[i][lane] = end(q . k of row seen.begin + i), where the lane sees the row. end_from(row, vector) is the end
  // from that row of the block and that vector on.
  template <class EndFrom>
  void MultiplyKeys(const ScoreTerms& terms, const QueryPanel& panel, const Keys& keys, const SeenRows& seen,
                    float* HWY_RESTRICT tile, const EndFrom& end_from) const {
    const float* q = panels_ + panel.lane * WholeSquares(static_cast<size_t>(call_.channels));
    Multiply(terms, panel, keys, seen, static_cast<size_t>(call_.channels), keys.k, keys.k_stride, q, tile, end_from);
  }

  // The same of other rows and panels.
  template <class EndFrom>
  static HWY_INLINE void Multiply(const ScoreTerms& terms, const QueryPanel& panel, const KeyBlock& keys,
                                  const SeenRows& seen, size_t channels, const float* a, size_t a_stride,
                                  const float* lanes, float* HWY_RESTRICT tile, const EndFrom& end_from) {
    terms.edges().ForEachWedge(panel, keys, seen, [&](size_t row, size_t end, size_t vector) {
      RowProducts(panel.vectors - vector, end - row, channels, a + row * a_stride, a_stride, lanes + vector * kLanes,
                  terms.ahead(), tile + (row - seen.begin) * kPanel + vector * kLanes, end_from(row, vector));
    });
  }

  // What a tile of MultiplyKeys holds.
  static WholeScores ScoresOf(const ScoreTerms& /*terms*/, const QueryPanel& /*panel*/) { return {}; }

  // Scores to weights; without dropout as AddValues reads them.
  static void Softmax(const ScoreTerms& terms, const QueryPanel& panel, size_t rows, float* tile,
                      const SoftmaxLanes& lanes) {
    SoftmaxStep(ScoresOf(terms, panel), FloatWeights(), panel.vectors, rows, tile, lanes);
  }
  static void FinishDropout(const QueryPanel& /*panel*/, size_t /*rows*/, float* /*tile*/) {}

  // out = factor * out + weights times the values of a stream.
  void AddValues(const ScoreTerms& terms, const QueryPanel& panel, const Keys& keys, const SeenRows& seen,
                 size_t stream, bool carefully, const float* tile, const float* factor, float* out) const {
    const float* v = stream == 0 ? keys.v : keys.second_v;
    const size_t stride = stream == 0 ? keys.v_stride : keys.second_v_stride;
    (carefully ? AddWeightedRowsCarefully : AddWeightedRows)(panel.vectors, static_cast<size_t>(call_.value_channels),
                                                             seen.count(), v + seen.begin * stride, stride, tile,
                                                             factor, out, terms.ahead());
  }

  // Backward: tile[i][lane] = grad_out . v of row seen.begin + i.
  void MultiplyValues(const ScoreTerms& terms, const QueryPanel& panel, const Keys& keys, const SeenRows& seen,
                      float* HWY_RESTRICT tile) const {
    Multiply(terms, panel, keys, seen, static_cast<size_t>(call_.value_channels), keys.v, keys.v_stride,
             grad_out_panels_ + panel.lane * grad_out_rows_, tile, ScoreTerms::NoEnd);
  }

  // Backward: grad_q += gradients of scores times keys.
  void AddKeys(const QueryPanel& panel, const Keys& keys, const SeenRows& seen, bool carefully, const float* gradient,
               float* grad_q) const {
    HWY_ALIGN float ones[kPanel];
    std::fill_n(ones, kPanel, 1.0f);
    (carefully ? AddWeightedRowsCarefully : AddWeightedRows)(panel.vectors, static_cast<size_t>(call_.channels),
                                                             seen.count(), keys.k + seen.begin * keys.k_stride,
                                                             keys.k_stride, gradient, ones, grad_q, nullptr);
  }

 private:
  const detail::Job& job_;
  const detail::AttentionCall& call_;
  float* panels_;  // of queries: [panel][channels][kPanel]
  const float* grad_out_panels_ = nullptr;
  size_t grad_out_rows_ = 0;
  float* k_buffer_ = nullptr;
  float* v_buffer_ = nullptr;
  float* second_v_buffer_ = nullptr;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
