// The products of attention in pairs of bf16 (products/pairs.h). Queries are the columns of a tile as they are its
// lanes:
//
//   scores      [key][lane]      keys by rows         times  queries, pairs of channels
//   out         [channel][lane]  values by columns    times  weights, pairs of keys
//
// Backward, with dP = grad_out . v and dS the gradient of the scores, see also pair_gradient-inl.h:
//
//   dP          [key][lane]      values by rows       times  grad_out, pairs of channels
//   grad_q      [channel][lane]  keys by columns      times  dS, pairs of keys
//
// The factor of the scores is not rounded into q: it is applied to the sums.
#if defined(PHASOR_ATTENTION_PAIR_ARITHMETIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_PAIR_ARITHMETIC_INL_H_
#undef PHASOR_ATTENTION_PAIR_ARITHMETIC_INL_H_
#else
#define PHASOR_ATTENTION_PAIR_ARITHMETIC_INL_H_
#endif

#include <cmath>

#include "block-inl.h"
#include "products/pairs.h"
#include "simd/element-inl.h"
#include "softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Memory for elements of bf16.
inline bf16* TakeNarrow(detail::Arena& arena, size_t count) {
  return reinterpret_cast<bf16*>(arena.take((count + 1) / 2));
}

// Channels of a row of which kSquare pairs are transposed at a time.
HWY_INLINE size_t WholePairSquares(size_t channels) {
  return (channels + 2 * kSquare - 1) / (2 * kSquare) * (2 * kSquare);
}

// panel[c / 2][lane] = the pair of channels c of the row times factor[lane]: kPanel rows, rounded. `narrow` has room
// for them.
inline HWY_NOINLINE void RowsToPairPanel(const StagedRows& rows, const float* HWY_RESTRICT factor,
                                         bf16* HWY_RESTRICT narrow, bf16* HWY_RESTRICT panel) {
  const size_t stride = WholePairSquares(rows.channels);
  for (size_t lane = 0; lane < kPanel; lane++) {
    const float* from = rows.data + lane * rows.stride;
    bf16* to = narrow + lane * stride;
    const float times = factor[lane];
    ForEachVector(rows.channels, [=](auto d, size_t c) HWY_ATTR {
      StoreFloat(hn::Mul(hn::Set(d, times), LoadFloat(d, from + c)), d, to + c);
    });
    std::fill(to + rows.channels, to + stride, bf16());
  }
  for (size_t lane = 0; lane < kPanel; lane += kLanes)
    TransposeWords(reinterpret_cast<const uint32_t*>(narrow + lane * stride), stride / 2, stride / 2,
                   reinterpret_cast<uint32_t*>(panel + 2 * lane), kPanel);
}

// tile[c] *= factor, lane by lane.
inline HWY_NOINLINE void ScalePanel(size_t vectors, size_t channels, const float* HWY_RESTRICT factor,
                                    float* HWY_RESTRICT panel) {
  const FloatTag d;
  for (size_t c = 0; c < channels; c++)
    for (size_t v = 0; v < vectors * kLanes; v += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(d, factor + v), hn::LoadU(d, panel + c * kPanel + v)), d, panel + c * kPanel + v);
}

inline bool IsOne(size_t vectors, const float* HWY_RESTRICT factor) {
  return std::all_of(factor, factor + vectors * kLanes, [](float x) { return x == 1.0f; });
}

// Forward has keys by rows and values by columns; backward keys by both and values by rows.
struct PairKeys : KeyBlock {
  detail::NarrowKeys k, v, k_columns{}, second_v{};
};

class PairArithmetic {
 public:
  using Keys = PairKeys;
  PairArithmetic(const detail::Job& job, int64_t queries, detail::Arena& arena)
      : narrow_(*job.narrow), call_(*job.call), panel_size_(WholePairSquares(Channels()) * kPanel) {
    const size_t lanes = WholePanels(queries);
    panels_ = TakeNarrow(arena, lanes / kPanel * panel_size_);
    rows_ = TakeNarrow(arena, panel_size_);
    factors_ = arena.take(lanes);
    ones_ = arena.take(kPanel);
    std::fill_n(ones_, kPanel, 1.0f);
    const size_t most = static_cast<size_t>(2 * std::max(call_.channels, call_.value_channels));
    last_ = TakeNarrow(arena, most);
    std::fill_n(last_, most, bf16());
    if (narrow_.k_columns) {
      grad_out_size_ = WholePairSquares(static_cast<size_t>(call_.value_channels)) * kPanel;
      grad_out_panels_ = TakeNarrow(arena, lanes / kPanel * grad_out_size_);
      grad_out_rows_ = TakeNarrow(arena, grad_out_size_);
    }
    const auto take = [&](const detail::NarrowSource& source) {
      return source.needs_buffer() ? TakeNarrow(arena, static_cast<size_t>(source.buffer_size(kMostKeys))) : nullptr;
    };
    k_buffer_ = take(narrow_.k), v_buffer_ = take(narrow_.v);
    if (narrow_.k_columns) k_columns_buffer_ = take(*narrow_.k_columns);
    if (narrow_.second_v) second_v_buffer_ = take(*narrow_.second_v);
  }

  void LoadQueries(const StagedRows& rows, const detail::QueryBlock& part, size_t lane, const ScoreTerms& terms) {
    HWY_ALIGN float signs[kPanel];
    for (size_t first = 0; first < static_cast<size_t>(part.count); first += kPanel) {
      float* factors = factors_ + lane + first;
      for (size_t z = 0; z < kPanel; z++) {
        const int64_t row = part.first + static_cast<int64_t>(std::min(first + z, static_cast<size_t>(part.count) - 1));
        SplitFactor(terms.softcap().QueryFactor() * terms.query_scale().At(row), signs[z], factors[z]);
      }
      RowsToPairPanel({rows.data + first * rows.stride, rows.stride, rows.channels}, signs, rows_,
                      PanelAt(lane + first));
    }
  }

  void LoadGradOut(const StagedRows& rows, int64_t count, const float* /*panels*/) {
    for (size_t first = 0; first < static_cast<size_t>(count); first += kPanel)
      RowsToPairPanel({rows.data + first * rows.stride, rows.stride, rows.channels}, ones_, grad_out_rows_,
                      grad_out_panels_ + first / kPanel * grad_out_size_);
  }

  Keys LoadKeys(const detail::QueryBlock& block, const KeyBlock& keys) const {
    const int64_t b = block.sequence->batch, group = block.head / call_.group();
    const int64_t row = block.sequence->first_key + keys.first, count = static_cast<int64_t>(keys.count);
    PairKeys result{keys, narrow_.k.keys(b, group, row, count, k_buffer_),
                    narrow_.v.keys(b, group, row, count, v_buffer_)};
    if (narrow_.k_columns) result.k_columns = narrow_.k_columns->keys(b, group, row, count, k_columns_buffer_);
    if (narrow_.second_v) result.second_v = narrow_.second_v->keys(b, group, row, count, second_v_buffer_);
    return result;
  }

  // As that of floats; the factor of the scores is still to be applied if no term reads them. One product for all
  // lanes is faster than those of the wedge that lanes see.
  template <class EndFrom>
  void MultiplyKeys(const ScoreTerms& terms, const QueryPanel& panel, const Keys& keys, const SeenRows& seen,
                    float* HWY_RESTRICT tile, const EndFrom& end_from) const {
    FetchSome(terms);
    MultiplyRows(panel, keys.k, seen, call_.channels, PanelAt(panel.lane), tile);
    if (terms.ReadsScores()) Finish(panel, seen.count(), tile, end_from(seen.begin, 0));
  }

  ScoresWithFactors ScoresOf(const ScoreTerms& terms, const QueryPanel& panel) const {
    return {terms.ReadsScores() ? ones_ : factors_ + panel.lane};
  }

  void Softmax(const ScoreTerms& terms, const QueryPanel& panel, size_t rows, float* tile,
               const SoftmaxLanes& lanes) const {
    if (terms.dropout())
      SoftmaxStep(ScoresOf(terms, panel), FloatWeights(), panel.vectors, rows, tile, lanes);
    else
      SoftmaxStep(ScoresOf(terms, panel), PairWeights(), panel.vectors, rows, tile, lanes);
  }
  static void FinishDropout(const QueryPanel& panel, size_t rows, float* tile) { StorePairs(panel, rows, tile); }

  // Floats of a tile to pairs of keys.
  static void StorePairs(const QueryPanel& panel, size_t rows, float* tile) {
    for (size_t v = 0; v < panel.vectors * kLanes; v += kLanes)
      PairWeights().Store(rows, tile + v, [](FloatVec weight) HWY_ATTR { return weight; });
  }

  void AddValues(const ScoreTerms& terms, const QueryPanel& panel, const Keys& keys, const SeenRows& seen,
                 size_t stream, bool carefully, const float* tile, const float* factor, float* out) const {
    FetchSome(terms);
    if (!IsOne(panel.vectors, factor))
      ScalePanel(panel.vectors, static_cast<size_t>(call_.value_channels), factor, out);
    AddColumns(panel, stream == 0 ? keys.v : keys.second_v, seen, call_.value_channels, carefully, tile, out);
  }

  void MultiplyValues(const ScoreTerms& /*terms*/, const QueryPanel& panel, const Keys& keys, const SeenRows& seen,
                      float* HWY_RESTRICT tile) const {
    MultiplyRows(panel, keys.v, seen, call_.value_channels, grad_out_panels_ + panel.lane / kPanel * grad_out_size_,
                 tile);
  }

  // The gradients of scores become pairs of keys.
  void AddKeys(const QueryPanel& panel, const Keys& keys, const SeenRows& seen, bool carefully, float* gradient,
               float* grad_q) const {
    StorePairs(panel, seen.count(), gradient);
    AddColumns(panel, keys.k_columns, seen, call_.channels, carefully, gradient, grad_q);
  }

 private:
  // tile[i][lane] = row seen.begin + i times a panel of pairs of channels.
  void MultiplyRows(const QueryPanel& panel, const detail::NarrowKeys& rows, const SeenRows& seen, int64_t channels,
                    const bf16* lanes, float* tile) const {
    multiplier_({.a = rows.data + static_cast<int64_t>(seen.begin) * rows.stride,
                 .a_stride = rows.stride,
                 .b = lanes,
                 .b_stride = 2 * kPanel,
                 .c = tile,
                 .c_stride = kPanel,
                 .rows = static_cast<int64_t>(seen.count()),
                 .columns = static_cast<int64_t>(panel.vectors * kLanes),
                 .pairs = (channels + 1) / 2});
  }

  // to[channel][lane] += columns of the rows seen times a tile of pairs of keys.
  void AddColumns(const QueryPanel& panel, const detail::NarrowKeys& columns, const SeenRows& seen, int64_t channels,
                  bool carefully, const float* tile, float* to) const {
    const bf16* data = columns.data + seen.begin;
    if (carefully)
      AddCarefully(panel, {data, columns.stride}, seen.count(), channels, tile, to);
    else
      AddColumns(panel, {data, columns.stride}, seen.count(), channels, tile, to);
  }
  // The key after an odd number of them may hold anything, NaN too: the last one is paired with 0.
  void AddColumns(const QueryPanel& panel, const detail::NarrowKeys& columns, size_t keys, int64_t channels,
                  const float* tile, float* to) const {
    const size_t pairs = keys / 2;
    AddPairs(panel, columns.data, columns.stride, pairs, channels, tile, to);
    if (keys % 2 == 0) return;
    for (int64_t c = 0; c < channels; c++)
      last_[2 * c] = columns.data[c * columns.stride + static_cast<int64_t>(2 * pairs)];
    AddPairs(panel, last_, 2, 1, channels, tile + pairs * kPanel, to);
  }
  // The same, but NaN and infinity are not multiplied by a weight of 0, which hides them: they are added one by one.
  void AddCarefully(const QueryPanel& panel, const detail::NarrowKeys& columns, size_t keys, int64_t channels,
                    const float* tile, float* to) const {
    detail::Arena arena;
    bf16* finite = TakeNarrow(arena, static_cast<size_t>(channels) * kMostKeys);
    const auto is_finite = [](bf16 x) { return std::isfinite(static_cast<float>(x)); };
    for (int64_t c = 0; c < channels; c++)
      for (size_t j = 0; j < keys; j++) {
        const bf16 x = columns.data[c * columns.stride + static_cast<int64_t>(j)];
        finite[static_cast<size_t>(c) * kMostKeys + j] = is_finite(x) ? x : bf16();
      }
    AddColumns(panel, {finite, kMostKeys}, keys, channels, tile, to);
    const bf16* weights = reinterpret_cast<const bf16*>(tile);
    for (int64_t c = 0; c < channels; c++)
      for (size_t j = 0; j < keys; j++) {
        const bf16 x = columns.data[c * columns.stride + static_cast<int64_t>(j)];
        for (size_t lane = 0; lane < kPanel && !is_finite(x); lane++) {
          const auto weight = static_cast<float>(weights[2 * (j / 2 * kPanel + lane) + j % 2]);
          if (weight != 0) to[static_cast<size_t>(c) * kPanel + lane] += weight * static_cast<float>(x);
        }
      }
  }
  void AddPairs(const QueryPanel& panel, const bf16* columns, int64_t stride, size_t pairs, int64_t channels,
                const float* tile, float* to) const {
    multiplier_({.a = columns,
                 .a_stride = stride,
                 .b = reinterpret_cast<const bf16*>(tile),
                 .b_stride = 2 * kPanel,
                 .c = to,
                 .c_stride = kPanel,
                 .rows = channels,
                 .columns = static_cast<int64_t>(panel.vectors * kLanes),
                 .pairs = static_cast<int64_t>(pairs),
                 .adds = true});
  }

  size_t Channels() const { return static_cast<size_t>(call_.channels); }
  bf16* PanelAt(size_t lane) const { return panels_ + lane / kPanel * panel_size_; }

  // About one line for 32 cycles of a product.
  static void FetchSome(const ScoreTerms& terms) {
    if (terms.ahead()) terms.ahead()->fetch(kMostKeys / 4);
  }

  // A factor of scores is above 0 after q has taken its sign: -infinity then stays what hides a key.
  static void SplitFactor(float factor, float& of_query, float& of_scores) {
    const bool splits = factor != 0 && std::isfinite(factor);
    of_query = splits ? std::copysign(1.0f, factor) : factor;
    of_scores = splits ? std::fabs(factor) : 1.0f;
  }

  // tile = end(factor times tile).
  template <class End>
  HWY_NOINLINE void Finish(const QueryPanel& panel, size_t rows, float* HWY_RESTRICT tile, const End& end) const {
    const FloatTag d;
    for (size_t i = 0; i < rows; i++)
      for (size_t v = 0; v < panel.vectors; v++) {
        float* at = tile + i * kPanel + v * kLanes;
        const FloatVec factor = hn::LoadU(d, factors_ + panel.lane + v * kLanes);
        hn::StoreU(end(i, v, hn::Mul(factor, hn::LoadU(d, at))), d, at);
      }
  }

  const detail::NarrowJob& narrow_;
  const detail::AttentionCall& call_;
  products::PairMultiplier multiplier_;
  const size_t panel_size_;
  bf16* panels_ = nullptr;    // of queries: [panel][channels / 2][kPanel][2]
  bf16* rows_ = nullptr;      // of one panel
  float* factors_ = nullptr;  // of scores, by lane
  float* ones_ = nullptr;
  bf16* last_ = nullptr;  // a key by channels, each beside a 0
  bf16* k_buffer_ = nullptr;
  bf16* v_buffer_ = nullptr;
  bf16* k_columns_buffer_ = nullptr;
  bf16* second_v_buffer_ = nullptr;
  bf16* grad_out_panels_ = nullptr;  // as panels_
  bf16* grad_out_rows_ = nullptr;
  size_t grad_out_size_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
