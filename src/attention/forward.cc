
#include "phasor/attention/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "forward.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "float_arithmetic-inl.h"
#include "forward.h"
#include "pair_arithmetic-inl.h"
#include "w2_rows.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// factor = 1 / sum, or 0 where no key was seen.
HWY_INLINE void InvertSums(const float* HWY_RESTRICT sum, float* HWY_RESTRICT factor) {
  const FloatTag d;
  for (size_t v = 0; v < kPanel; v += kLanes) {
    const FloatVec total = hn::LoadU(d, sum + v);
    const FloatVec inverse = hn::Div(hn::Set(d, 1.0f), total);
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(total, hn::Zero(d)), inverse), d, factor + v);
  }
}

// One block of queries of one head, and perhaps the block that the thread will probably process next.
template <class Arithmetic>
class ForwardBlock {
 public:
  ForwardBlock(const detail::ForwardJob& forward, const detail::QueryBlock& block, const detail::QueryBlock* next)
      : forward_(forward),
        call_(*forward.job->call),
        block_(block),
        terms_(call_, *block.sequence, block.count, Pass::forward, arena_),
        arithmetic_(*forward.job, block.count, arena_),
        value_channels_(static_cast<size_t>(call_.value_channels)),
        value_stride_(WholeSquares(value_channels_)),
        streams_(call_.second_v ? 2 : 1) {
    terms_.Load(block);
    terms_.set_ahead(&ahead_);
    StageQueries(TakeRows(arena_, kPanel, call_.channels));
    const size_t lanes = WholePanels(block.count);
    out_panels_ = arena_.take(lanes * value_stride_ * streams_);
    max_ = arena_.take(lanes), sum_ = arena_.take(lanes), factor_ = arena_.take(lanes);
    out_rows_ = arena_.take(kPanel * value_stride_);
    tile_ = arena_.take(kTileSize);
    LookAhead(next);
  }

  void Run() {
    Attend(false);
    if (AnyNaN()) Attend(true);
    for (size_t first = 0; first < static_cast<size_t>(block_.count); first += kPanel) Finish(PanelAt(first));
    if (forward_.output->weights.data) WriteWeights();
  }

 private:
  using Keys = typename Arithmetic::Keys;

  // One panel at a time, so that whole panels are read in place even if the last one is not whole.
  void StageQueries(float* buffer) {
    detail::QueryBlock part = block_;
    for (size_t first = 0; first < static_cast<size_t>(block_.count); first += kPanel) {
      const QueryPanel panel = PanelAt(first);
      part.first = panel.first_query, part.count = static_cast<int64_t>(panel.count);
      const StagedRows rows =
          call_.second_q ? ReadStreams(part, buffer) : ReadQueries(call_.q, part, call_.options.q_rotary, buffer);
      arithmetic_.LoadQueries(rows, part, first, terms_);
    }
  }

  // W2: mu and sigma of the queries, minus the middle key.
  StagedRows ReadStreams(const detail::QueryBlock& part, float* buffer) const {
    const auto channels = static_cast<size_t>(call_.channels), stride = WholeSquares(channels);
    const int64_t b = part.sequence->batch, row = static_cast<int64_t>(stride);
    ClearAroundRows(part.count, channels, buffer);
    detail::read_rows(call_.q, b, part.head, part.first, part.count, call_.options.q_rotary, buffer, row);
    const int64_t means = call_.q.shape[3];
    detail::read_rows(*call_.second_q, b, part.head, part.first, part.count, {}, buffer + means, row);
    detail::sigma_of_rows(part.count, means, buffer + means, row);
    const float* middle = &call_.middle(b, part.head / call_.group(), 0, 0);
    detail::subtract_from_rows(middle, part.count, call_.channels, buffer, row);
    return {buffer, stride, channels};
  }

  // The rows of the output, then the rows that the next block reads and this one does not.
  void LookAhead(const detail::QueryBlock* next) {
    ahead_.add(forward_.output->out, block_.sequence->batch, block_.head, block_.first, block_.count);
    ahead_.add(forward_.output->second_out, block_.sequence->batch, block_.head, block_.first, block_.count);
    if (!next) return;
    const int64_t b = next->sequence->batch, group = next->head / call_.group();
    ahead_.add(call_.q, b, next->head, next->first, next->count);
    if (call_.second_q) ahead_.add(*call_.second_q, b, next->head, next->first, next->count);
    if (forward_.job->narrow || (next->sequence == block_.sequence && group == block_.head / call_.group())) return;
    constexpr int64_t kMost = 256;  // the second-level cache also has this block's keys and values
    const int64_t begin = call_.first_seen(next->position());
    const int64_t end = call_.end_seen(*next->sequence, next->position() + next->count - 1);
    const int64_t first = next->sequence->first_key + begin, count = std::min(end - begin, kMost);
    ahead_.add(forward_.job->k.source(), b, group, first, count);
    ahead_.add(forward_.job->v.source(), b, group, first, count);
    if (forward_.job->second_v) ahead_.add(forward_.job->second_v->source(), b, group, first, count);
  }

  QueryPanel PanelAt(size_t first) const { return PanelOf(block_, first); }
  // Sums of a panel, [channels][kPanel], for each stream of values.
  float* OutOf(const QueryPanel& panel, size_t stream) const {
    return out_panels_ + (panel.lane * streams_ + stream * kPanel) * value_stride_;
  }

  template <class Body>
  void ForEachPanel(const Body& body) const {
    ForEachKeyBlock(arithmetic_, block_, terms_, [&](const Keys& keys) {
      for (size_t first = 0; first < static_cast<size_t>(block_.count); first += kPanel) {
        const QueryPanel panel = PanelAt(first);
        const SeenRows seen = terms_.Seen(panel, keys);
        if (!seen.empty()) body(panel, keys, seen);
      }
    });
  }

  // Sums of 2^(score - max) and of these times the values, over all keys.
  void Attend(bool carefully) {
    const size_t lanes = WholePanels(block_.count);
    std::fill_n(max_, lanes, -detail::kInfinity);
    std::fill_n(sum_, lanes, 0.0f);
    std::fill_n(out_panels_, lanes * value_stride_ * streams_, 0.0f);
    HWY_ALIGN float factor[kPanel];
    ForEachPanel([&](const QueryPanel& panel, const Keys& keys, const SeenRows& seen) {
      const size_t rows = seen.count(), lane = panel.lane;
      terms_.Scores(arithmetic_, panel, keys, seen, tile_);
      arithmetic_.Softmax(terms_, panel, rows, tile_, {max_ + lane, sum_ + lane, factor});
      if (terms_.dropout()) {
        terms_.dropout().Apply(ScoreTerms::PlaceOf(panel, keys, seen), tile_);
        arithmetic_.FinishDropout(panel, rows, tile_);
      }
      for (size_t stream = 0; stream < streams_; stream++)
        arithmetic_.AddValues(terms_, panel, keys, seen, stream, carefully, tile_, factor, OutOf(panel, stream));
    });
  }

  bool AnyNaN() const {
    for (size_t first = 0; first < static_cast<size_t>(block_.count); first += kPanel) {
      const QueryPanel panel = PanelAt(first);
      for (size_t stream = 0; stream < streams_; stream++)
        if (HasNaN(value_channels_, panel.count, OutOf(panel, stream))) return true;
    }
    return false;
  }

  // Divides by the sums, the sink's share included, and stores out and the ends of softmax.
  void Finish(const QueryPanel& panel) {
    if (call_.options.sinks.empty() && !forward_.output->lse.data && !forward_.output->softmax.data)
      InvertSums(sum_ + panel.lane, factor_ + panel.lane);
    else
      for (size_t z = 0; z < kPanel; z++) FinishLane(panel, panel.lane + z);
    for (size_t stream = 0; stream < streams_; stream++)
      StoreRows(panel, OutOf(panel, stream), stream == 0 ? forward_.output->out : forward_.output->second_out);
  }

  void StoreRows(const QueryPanel& panel, const float* out, const detail::AnyOutput& to) {
    const int64_t b = block_.sequence->batch, count = static_cast<int64_t>(panel.count);
    const float* factor = factor_ + panel.lane;
    if (HoldsWholePanels(to.shape, to.type, count)) {
      PanelToRows(out, value_channels_, factor, &to.as<float>()(b, block_.head, panel.first_query, 0),
                  static_cast<size_t>(to.strides[2]));
      return;
    }
    PanelToRows(out, value_channels_, factor, out_rows_, value_stride_);
    detail::write_rows(to, b, block_.head, panel.first_query, count, out_rows_, static_cast<int64_t>(value_stride_));
  }

  // The factor of a lane's sums, 0 when it saw no key, and what is stored of its softmax.
  void FinishLane(const QueryPanel& panel, size_t lane) {
    const detail::SoftmaxEnd end = detail::end_softmax(call_, block_.head, max_[lane], sum_[lane]);
    factor_[lane] = end.factor;
    const size_t z = lane - panel.lane;
    if (z < panel.count)
      end.store(*forward_.output, block_.sequence->batch, block_.head, panel.first_query + static_cast<int64_t>(z));
  }

  // A second pass over the keys, when the log-sum-exp is known; weights of hidden keys stay 0.
  void WriteWeights() {
    const TensorView<float, 4>& weights = forward_.output->weights;
    const int64_t b = block_.sequence->batch;
    for (int64_t i = 0; i < block_.count; i++)
      std::fill_n(&weights(b, block_.head, block_.first + i, 0), call_.keys, 0.0f);
    float* rows_of_panel = arena_.take(kPanel * kMostKeys);
    std::replace(max_, max_ + WholePanels(block_.count), -detail::kInfinity, 0.0f);  // scores of -infinity stay so
    HWY_ALIGN float ones[kPanel];
    std::fill_n(ones, kPanel, 1.0f);
    ForEachPanel([&](const QueryPanel& panel, const Keys& keys, const SeenRows& seen) {
      const size_t rows = seen.count();
      terms_.Scores(arithmetic_, panel, keys, seen, tile_);
      Weights(arithmetic_.ScoresOf(terms_, panel), panel.vectors, rows, max_ + panel.lane, factor_ + panel.lane, tile_);
      if (terms_.dropout()) terms_.dropout().Apply(ScoreTerms::PlaceOf(panel, keys, seen), tile_);
      PanelToRows(tile_, rows, ones, rows_of_panel, kMostKeys);
      const int64_t key = block_.sequence->first_key + keys.first + static_cast<int64_t>(seen.begin);
      for (size_t z = 0; z < panel.count; z++)
        std::copy_n(rows_of_panel + z * kMostKeys, rows,
                    &weights(b, block_.head, panel.first_query + static_cast<int64_t>(z), key));
    });
  }

  const detail::ForwardJob& forward_;
  const detail::AttentionCall& call_;
  const detail::QueryBlock& block_;
  detail::Arena arena_;
  ScoreTerms terms_;
  detail::RowsAhead ahead_;
  Arithmetic arithmetic_;
  const size_t value_channels_, value_stride_;
  const size_t streams_;         // of values
  float* out_panels_ = nullptr;  // [panel][value channels][kPanel]
  float* out_rows_ = nullptr;    // of one panel
  float* max_ = nullptr;
  float* sum_ = nullptr;
  float* factor_ = nullptr;  // of 2^(score - max) to the weight
  float* tile_ = nullptr;    // [keys][kPanel]: scores, then weights
};

void RunForwardBlock(const detail::ForwardJob& job, const detail::QueryBlock& block, const detail::QueryBlock* next) {
  if (job.job->narrow)
    ForwardBlock<PairArithmetic>(job, block, next).Run();
  else
    ForwardBlock<FloatArithmetic>(job, block, next).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "decode.h"
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(RunForwardBlock);

namespace {

// Small heads are one block, which reads each key once; with many heads all threads stay busy. It depends on shapes
// alone, because results depend on it.
std::int64_t queries_of_a_block(const AttentionCall& call) {
  constexpr std::int64_t kUsual = 128, kMost = 256, kManyHeads = 64;
  return call.queries <= kMost && call.batch * call.heads >= kManyHeads ? kMost : kUsual;
}

}  // namespace

void forward(const AttentionCall& call, const ForwardOutput& output) {
  if (is_decode(call, output)) return decode(call, output);
  const std::int64_t queries = queries_of_a_block(call);
  const Job job(call, queries, NarrowUse::forward);
  const ForwardJob forward_job{&job, &output};
  List<QueryBlock> tasks;
  for (const Sequence& sequence : call.sequences)
    for (std::int64_t head = 0; head < call.heads; head++)
      for (const QueryBlock& block : query_blocks(sequence, head, queries)) tasks.push_back(block);
  run_tasks(static_cast<std::int64_t>(tasks.size()), multiplications_of(call), [&](std::int64_t i) {
    const std::size_t at = static_cast<std::size_t>(i), next = at + static_cast<std::size_t>(num_threads());
    PHASOR_DISPATCH(RunForwardBlock)(forward_job, tasks[at], next < tasks.size() ? &tasks[next] : nullptr);
  });
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
