// A block of queries, loaded for the backward pass.
#if defined(PHASOR_ATTENTION_STAGED_QUERIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_STAGED_QUERIES_INL_H_
#undef PHASOR_ATTENTION_STAGED_QUERIES_INL_H_
#else
#define PHASOR_ATTENTION_STAGED_QUERIES_INL_H_
#endif

#include <cmath>

#include "backward.h"
#include "gradient-inl.h"
#include "softmax-inl.h"
#include "softmax_end.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A block of queries with everything that its gradients need. Blocks are loaded one after the other into the same
// memory.
class StagedQueries {
 public:
  StagedQueries(const detail::BackwardJob& backward, const detail::Sequence& sequence, detail::Arena& arena)
      : backward_(backward),
        call_(*backward.job->call),
        scoring_buffers_(TakeScoringBuffers(call_, sequence, backward.queries_of_a_block, arena)),
        key_buffers_(TakeKeyBuffers(*backward.job, arena)),
        q_buffer_(TakeRows(arena, backward.queries_of_a_block, call_.channels)),
        grad_out_buffer_(TakeRows(arena, backward.queries_of_a_block, call_.value_channels)),
        out_buffer_(TakeRows(arena, backward.queries_of_a_block, call_.value_channels)),
        out_panel_(TakeRows(arena, kPanel, call_.value_channels)),
        q_panels_(TakeRows(arena, backward.queries_of_a_block, call_.channels)),
        grad_out_panels_(TakeRows(arena, backward.queries_of_a_block, call_.value_channels)),
        base_(arena.take(WholePanels(backward.queries_of_a_block))),
        factor_(arena.take(WholePanels(backward.queries_of_a_block))),
        delta_(arena.take(WholePanels(backward.queries_of_a_block))),
        ones_(arena.take(kPanel)),
        max_(arena.take(kPanel)),
        sum_(arena.take(kPanel)),
        tile_(arena.take(kTileSize)),
        factors_(call_.options.dropout.rate > 0 ? arena.take(kTileSize) : nullptr),
        tanh_(call_.options.softcap > 0 ? arena.take(kTileSize) : nullptr) {
    std::fill_n(ones_, kPanel, 1.0f);
  }

  void Load(const detail::QueryBlock& block) {
    block_ = block;
    seen_ = KeysSeen(call_, block);
    scoring_ = MakeScoring(*backward_.job, block, seen_, scoring_buffers_);
    q_ = ReadQueries(call_.q, block, call_.options.rotate_q, q_buffer_);
    grad_out_ = ReadQueries(backward_.input->grad_out, block, {}, grad_out_buffer_);
    RowsToPanels(q_, block.count, QueryFactor(call_), q_panels_);
    RowsToPanels(grad_out_, block.count, 1.0f, grad_out_panels_);
    for (size_t lane = 0; lane < WholePanels(block.count); lane++) LoadLane(lane);
    AddOutToDelta(ReadQueries(backward_.input->out, block, {}, out_buffer_), out_panel_);
    RefineLanes();
  }

  size_t count() const { return static_cast<size_t>(block_.count); }
  size_t panels() const { return WholePanels(block_.count) / kPanel; }
  const detail::QueryBlock& block() const { return block_; }
  const Scoring& scoring() const { return scoring_; }
  const SeenKeys& seen() const { return seen_; }
  const StagedRows& q() const { return q_; }
  const StagedRows& grad_out() const { return grad_out_; }
  // Memory for rows of q; its content is undefined after panels and strips are made.
  float* spare_rows() const { return q_buffer_; }
  const float* ones() const { return ones_; }
  const float* delta() const { return delta_; }
  // Of a score in base 2, as the sink's.
  double WeightOf(double score, size_t lane) const { return std::exp2(score - base_[lane]) * factor_[lane]; }

  QueryPanel PanelAt(size_t p) const { return PanelOf(block_, p * kPanel, q_panels_, q_.panel_rows()); }

  template <class Body>
  void ForEachBlock(const Body& body) const {
    ForEachKeyBlock(*backward_.job, block_, seen_, key_buffers_, body);
  }

  // Weights and gradients of scores of panel p; tiles begin with the first row seen. By default the gradient is that of
  // the product q.k; without `through_cap` that of the score after the softcap.
  void Gradients(size_t p, const KeyBlock& keys, const SeenRows& seen, ScoreGradientExtras extras, bool through_cap,
                 float* weights, float* gradient) const {
    const QueryPanel panel = PanelAt(p);
    const size_t rows = seen.end - seen.begin;
    Scores(scoring_, panel, keys, seen, weights, tanh_);
    Weights(panel.vectors, rows, base_ + p * kPanel, factor_ + p * kPanel, weights);
    RowDots(scoring_, panel, keys, seen, static_cast<size_t>(call_.value_channels), keys.v, keys.v_stride,
            grad_out_panels_ + p * kPanel * grad_out_.panel_rows(), gradient);
    if (factors_) {
      const int64_t key = scoring_.sequence->first_key + keys.first + static_cast<int64_t>(seen.begin);
      DropoutFactors(scoring_, panel, key, rows, factors_);
      extras.factors = factors_;
    }
    if (through_cap) extras.tanh = tanh_;
    ScoreGradient(panel.vectors, rows, delta_ + p * kPanel, extras, weights, gradient);
  }

 private:
  int64_t RowOf(size_t lane) const { return block_.first + static_cast<int64_t>(lane); }
  float LseOf(size_t lane) const { return backward_.input->lse(block_.sequence->batch, block_.head, RowOf(lane)); }
  // In base 2, of the scores as the kernel has them.
  double KernelLseOf(size_t lane) const {
    const TensorView<const double, 3>& shift = backward_.input->lse_shift;
    const double more = shift.data ? shift(block_.sequence->batch, block_.head, RowOf(lane)) : 0.0;
    return (static_cast<double>(LseOf(lane)) + more) / detail::kLn2;
  }
  // weight = 2^(score - largest) / sum, `largest` in base 2.
  void SetSoftmax(size_t lane, double largest, double sum) {
    base_[lane] = static_cast<float>(largest);
    factor_[lane] = static_cast<float>(std::exp2(static_cast<double>(base_[lane]) - largest) / sum);
  }

  // base, factor: a weight is factor * 2^(score - base). base is infinite for lanes without queries or keys, whose
  // weights then vanish.
  // delta: grad_out . out - grad_lse, what each score's gradient has in common; here its second part.
  void LoadLane(size_t lane) {
    base_[lane] = detail::kInfinity;
    factor_[lane] = 1.0f;
    delta_[lane] = 0.0f;
    if (lane >= count() || LseOf(lane) == -detail::kInfinity) return;
    SetSoftmax(lane, KernelLseOf(lane), 1.0);
    const TensorView<const float, 3>& grad_lse = backward_.input->grad_lse;
    if (grad_lse.data) delta_[lane] = -grad_lse(block_.sequence->batch, block_.head, RowOf(lane));
  }

  // delta += grad_out . out, summed channel by channel as the kernel sums grad_out . v: if softmax selects one
  // key, out is its value, and the gradients of all scores are exactly 0.
  void AddOutToDelta(const StagedRows& out, float* panel) {
    const FloatTag d;
    for (size_t first = 0; first < WholePanels(block_.count); first += kPanel) {
      RowsToPanel(out.data + first * out.stride, out.stride, out.channels, 1.0f, panel);
      const float* grad_out = grad_out_panels_ + first * grad_out_.panel_rows();
      for (size_t v = 0; v < kPanel; v += kLanes) {
        FloatVec sum = hn::Zero(d);
        for (size_t c = 0; c < out.channels; c++)
          sum = hn::MulAdd(hn::LoadU(d, panel + c * kPanel + v), hn::LoadU(d, grad_out + c * kPanel + v), sum);
        float* delta = delta_ + first + v;
        hn::StoreU(hn::Add(sum, hn::LoadU(d, delta)), d, delta);
      }
    }
  }

  // The rounding of a log-sum-exp to float is a relative error of its row's weights: 2^-20 at 32, and at -1e9 the
  // number of keys is lost. Where it is large, the largest score and the sum are computed again.
  bool IsLarge(size_t lane) const {
    constexpr float kLarge = 32.0f;
    return std::fabs(LseOf(lane)) >= kLarge && base_[lane] != detail::kInfinity;
  }

  void RefineLanes() {
    for (size_t p = 0; p < panels(); p++) {
      const size_t first = p * kPanel, end = std::min(first + kPanel, count());
      size_t lane = first;
      while (lane < end && !IsLarge(lane)) lane++;
      if (lane == end) continue;
      SumScores(PanelAt(p));
      for (; lane < end; lane++)
        if (IsLarge(lane)) Refine(lane, lane - first);
    }
  }

  // The largest score and the sum of each lane of a panel.
  void SumScores(const QueryPanel& panel) {
    std::fill_n(max_, kPanel, -detail::kInfinity);
    std::fill_n(sum_, kPanel, 0.0f);
    HWY_ALIGN float factor[kPanel];
    ForEachBlock([&](const KeyBlock& keys) {
      const SeenRows seen = RowsSeen(scoring_, panel, keys);
      if (seen.empty()) return;
      Scores(scoring_, panel, keys, seen, tile_, nullptr);
      SoftmaxStep(panel.vectors, seen.end - seen.begin, tile_, {max_, sum_, factor});
    });
  }

  // A log-sum-exp that does not follow from these keys belongs to more keys: then it is used as given.
  void Refine(size_t lane, size_t of_panel) {
    const detail::SoftmaxEnd end = detail::end_softmax(call_, block_.head, max_[of_panel], sum_[of_panel]);
    const double given = KernelLseOf(lane);
    if (std::fabs(end.max + std::log2(end.sum) - given) <= 0x1p-20 * std::fabs(given))
      SetSoftmax(lane, end.max, end.sum);
  }

  const detail::BackwardJob& backward_;
  const detail::AttentionCall& call_;
  const ScoringBuffers scoring_buffers_;
  const KeyBuffers key_buffers_;
  float* q_buffer_;
  float* grad_out_buffer_;
  float* out_buffer_;
  float* out_panel_;
  float* q_panels_;
  float* grad_out_panels_;
  float* base_;
  float* factor_;
  float* delta_;
  float* ones_;
  float* max_;
  float* sum_;
  float* tile_;
  float* factors_;
  float* tanh_;
  detail::QueryBlock block_;
  StagedRows q_, grad_out_;
  SeenKeys seen_;
  Scoring scoring_;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
