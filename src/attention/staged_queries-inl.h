// A block of queries, loaded for the backward pass.
#if defined(PHASOR_ATTENTION_STAGED_QUERIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_STAGED_QUERIES_INL_H_
#undef PHASOR_ATTENTION_STAGED_QUERIES_INL_H_
#else
#define PHASOR_ATTENTION_STAGED_QUERIES_INL_H_
#endif

#include "backward.h"
#include "gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A block of queries with all that its gradients need, loaded again and again into the same memory.
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
        q_panels_(TakeRows(arena, backward.queries_of_a_block, call_.channels)),
        grad_out_panels_(TakeRows(arena, backward.queries_of_a_block, call_.value_channels)),
        base_(arena.take(WholePanels(backward.queries_of_a_block))),
        delta_(arena.take(WholePanels(backward.queries_of_a_block))),
        ones_(arena.take(kPanel)),
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
    out_ = ReadQueries(backward_.input->out, block, {}, out_buffer_);
    RowsToPanels(q_, block.count, QueryFactor(call_), q_panels_);
    RowsToPanels(grad_out_, block.count, 1.0f, grad_out_panels_);
    for (size_t lane = 0; lane < WholePanels(block.count); lane++) LoadLane(lane);
  }

  size_t count() const { return static_cast<size_t>(block_.count); }
  size_t panels() const { return WholePanels(block_.count) / kPanel; }
  const detail::QueryBlock& block() const { return block_; }
  const Scoring& scoring() const { return scoring_; }
  const SeenKeys& seen() const { return seen_; }
  const StagedRows& q() const { return q_; }
  const StagedRows& grad_out() const { return grad_out_; }
  // Memory for rows of q, of any content once panels and strips are made.
  float* spare_rows() const { return q_buffer_; }
  const float* ones() const { return ones_; }
  const float* base() const { return base_; }
  const float* delta() const { return delta_; }

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
    Weights(panel.vectors, rows, base_ + p * kPanel, weights);
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
  // base: log-sum-exp in base 2; infinite for lanes without queries or keys, whose weights then vanish.
  // delta: grad_out . out - grad_lse, what each score's gradient has in common.
  void LoadLane(size_t lane) {
    base_[lane] = detail::kInfinity;
    delta_[lane] = 0.0f;
    if (lane >= count()) return;
    const int64_t b = block_.sequence->batch, row = block_.first + static_cast<int64_t>(lane);
    const float lse = backward_.input->lse(b, block_.head, row);
    if (lse == -detail::kInfinity) return;
    base_[lane] = static_cast<float>(static_cast<double>(lse) / detail::kLn2);
    const float* a = grad_out_.data + lane * grad_out_.stride;
    const float* o = out_.data + lane * out_.stride;
    const FloatTag d;
    FloatVec sum = hn::Zero(d);
    size_t c = 0;
    for (; c + kLanes <= out_.channels; c += kLanes) sum = hn::MulAdd(hn::LoadU(d, a + c), hn::LoadU(d, o + c), sum);
    float rest = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; c < out_.channels; c++) rest += a[c] * o[c];
    const TensorView<const float, 3>& grad_lse = backward_.input->grad_lse;
    delta_[lane] = rest - (grad_lse.data ? grad_lse(b, block_.head, row) : 0.0f);
  }

  const detail::BackwardJob& backward_;
  const detail::AttentionCall& call_;
  const ScoringBuffers scoring_buffers_;
  const KeyBuffers key_buffers_;
  float* q_buffer_;
  float* grad_out_buffer_;
  float* out_buffer_;
  float* q_panels_;
  float* grad_out_panels_;
  float* base_;
  float* delta_;
  float* ones_;
  float* factors_;
  float* tanh_;
  detail::QueryBlock block_;
  StagedRows q_, grad_out_, out_;
  SeenKeys seen_;
  Scoring scoring_;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
