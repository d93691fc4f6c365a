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

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A block of queries with everything that its gradients need. Blocks are loaded one after the other into the same
// memory.
template <class Arithmetic>
class StagedQueries {
 public:
  using Keys = typename Arithmetic::Keys;

  StagedQueries(const detail::BackwardJob& backward, const detail::Sequence& sequence, detail::Arena& arena)
      : backward_(backward),
        call_(*backward.job->call),
        terms_(call_, sequence, backward.queries_of_a_block, Pass::backward, arena),
        arithmetic_(*backward.job, backward.queries_of_a_block, arena),
        q_buffer_(TakeRows(arena, backward.queries_of_a_block, call_.channels)),
        grad_out_buffer_(TakeRows(arena, backward.queries_of_a_block, call_.value_channels)),
        out_buffer_(TakeRows(arena, backward.queries_of_a_block, call_.value_channels)),
        out_panel_(TakeRows(arena, kPanel, call_.value_channels)),
        grad_out_panels_(TakeRows(arena, backward.queries_of_a_block, call_.value_channels)),
        base_(arena.take(WholePanels(backward.queries_of_a_block))),
        factor_(arena.take(WholePanels(backward.queries_of_a_block))),
        delta_(arena.take(WholePanels(backward.queries_of_a_block))) {}

  void Load(const detail::QueryBlock& block) {
    block_ = block;
    terms_.Load(block);
    q_ = ReadQueries(call_.q, block, call_.options.q_rotary, q_buffer_);
    grad_out_ = ReadQueries(backward_.input->grad_out, block, {}, grad_out_buffer_);
    arithmetic_.LoadQueries(q_, block, 0, terms_);
    RowsToPanels(grad_out_, block.count, 1.0f, grad_out_panels_);
    arithmetic_.LoadGradOut(grad_out_, block.count, grad_out_panels_);
    for (size_t lane = 0; lane < WholePanels(block.count); lane++) LoadLane(lane);
    AddOutToDelta(ReadQueries(backward_.input->out, block, {}, out_buffer_), out_panel_);
  }

  size_t count() const { return static_cast<size_t>(block_.count); }
  size_t panels() const { return WholePanels(block_.count) / kPanel; }
  const detail::QueryBlock& block() const { return block_; }
  const ScoreTerms& terms() const { return terms_; }
  const Arithmetic& arithmetic() const { return arithmetic_; }
  const StagedRows& q() const { return q_; }
  const StagedRows& grad_out() const { return grad_out_; }
  // Memory for rows of q; its content is undefined after panels and strips are made.
  float* spare_rows() const { return q_buffer_; }
  double delta(size_t lane) const { return delta_[lane]; }
  bool SeesKeys(size_t lane) const { return factor_[lane] != 0.0f; }  // or a sink
  // Of a score in base 2, as the sink's.
  double WeightOf(double score, size_t lane) const { return std::exp2(score - base_[lane]) * factor_[lane]; }

  QueryPanel PanelAt(size_t p) const { return PanelOf(block_, p * kPanel); }

  template <class Body>
  void ForEachBlock(const Body& body) const {
    ForEachKeyBlock(arithmetic_, block_, terms_, body);
  }

  // Weights and gradients of the scores, after all terms, of panel p; tiles begin with the first row seen.
  void Gradients(size_t p, const Keys& keys, const SeenRows& seen, float* weights, float* gradient) const {
    const QueryPanel panel = PanelAt(p);
    terms_.Scores(arithmetic_, panel, keys, seen, weights);
    Weights(arithmetic_.ScoresOf(terms_, panel), panel.vectors, seen.count(), base_ + p * kPanel, factor_ + p * kPanel,
            weights);
    arithmetic_.MultiplyValues(terms_, panel, keys, seen, gradient);
    const float* factors =
        terms_.dropout() ? terms_.dropout().Factors(ScoreTerms::PlaceOf(panel, keys, seen)) : nullptr;
    ScoreGradient(panel.vectors, seen.count(), delta_ + p * kPanel, factors, weights, gradient);
  }

 private:
  int64_t RowOf(size_t lane) const { return block_.first + static_cast<int64_t>(lane); }

  // base, factor: a weight is factor * 2^(score - base). base is infinite for lanes without queries or keys, whose
  // weights then vanish.
  // delta: grad_out . out - grad_lse, what each score's gradient has in common; here its second part.
  void LoadLane(size_t lane) {
    base_[lane] = detail::kInfinity;
    factor_[lane] = 0.0f;
    delta_[lane] = 0.0f;
    if (lane >= count()) return;
    const int64_t b = block_.sequence->batch, h = block_.head, i = RowOf(lane);
    const float sum = backward_.input->softmax(b, h, i, 1);
    if (sum == 0) return;
    base_[lane] = backward_.input->softmax(b, h, i, 0);
    factor_[lane] = 1.0f / sum;
    const TensorView<const float, 3>& grad_lse = backward_.input->grad_lse;
    if (grad_lse.data) delta_[lane] = -grad_lse(b, h, i);
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

  const detail::BackwardJob& backward_;
  const detail::AttentionCall& call_;
  ScoreTerms terms_;
  Arithmetic arithmetic_;
  float* q_buffer_;
  float* grad_out_buffer_;
  float* out_buffer_;
  float* out_panel_;
  float* grad_out_panels_;
  float* base_;
  float* factor_;
  float* delta_;
  detail::QueryBlock block_;
  StagedRows q_, grad_out_;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
