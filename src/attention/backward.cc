#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backward.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backward.h"
#include "pair_gradient-inl.h"
#include "staged_queries-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Gradients of the queries of a task, and their share of the gradients of keys, values and terms.
template <class Arithmetic, class KeyGradients>
class BackwardRun {
 public:
  // mask: the gradient of the mask, if no other task adds to the same elements.
  BackwardRun(const detail::BackwardJob& backward, const TensorView<float, 4>& mask, detail::BackwardTask& task)
      : backward_(backward),
        call_(*backward.job->call),
        task_(task),
        queries_(backward, *task.sequence, arena_),
        key_gradients_(call_, WholePanels(backward.queries_of_a_block), arena_),
        key_bias_(*task.sequence, std::get<detail::KeyBiasSums>(task.sums), arena_),
        distance_bias_(call_, *task.sequence, backward.queries_of_a_block, queries_.terms().distance_bias(),
                       std::get<detail::DistanceBiasSums>(task.sums), arena_),
        mask_(mask, arena_),
        query_scale_(call_, std::get<detail::QueryScaleSums>(task.sums)),
        sinks_(std::get<detail::SinkSums>(task.sums)) {
    grad_q_ = TakeRows(arena_, backward.queries_of_a_block, call_.channels);
    if (query_scale_) grad_rows_ = TakeRows(arena_, backward.queries_of_a_block, call_.channels);
  }

  void Run() {
    const int64_t group = call_.group();
    for (int64_t h = 0; h < group; h++) {
      const int64_t head = task_.key_head * group + h;
      const detail::List<detail::QueryBlock> blocks =
          detail::query_blocks(*task_.sequence, head, backward_.queries_of_a_block);
      for (size_t i = 0; i < blocks.size(); i++)
        if (ChunkOf(static_cast<int64_t>(i)) == task_.chunk) RunBlock(blocks[i]);
      if (key_bias_) key_bias_.EndHead(head);
    }
  }

 private:
  using Keys = typename Arithmetic::Keys;

  // The row of q of a lane of the block; the last one also for lanes without queries.
  int64_t RowOf(size_t lane) const {
    return queries_.block().first + static_cast<int64_t>(std::min(lane, queries_.count() - 1));
  }

  // Blocks are assigned to chunks back and forth, so that each chunk has the same work under a causal mask.
  int64_t ChunkOf(int64_t i) const {
    const int64_t round = i / task_.chunks, place = i % task_.chunks;
    return round % 2 ? task_.chunks - 1 - place : place;
  }

  void RunBlock(const detail::QueryBlock& block) {
    queries_.Load(block);
    const size_t lanes = queries_.panels() * kPanel;
    const QueryScale& scale = queries_.terms().query_scale();
    // A query that sees no key adds nothing to gradients of keys and values, also if it is NaN.
    const auto seeing = [&](size_t i) { return queries_.SeesKeys(i) ? 1.0f : 0.0f; };
    key_gradients_.LoadQueries(
        queries_.q(), queries_.grad_out(), lanes,
        [&](size_t i) { return seeing(i) * static_cast<float>(call_.scale) * scale.At(RowOf(i)); }, seeing);
    std::fill_n(grad_q_, lanes * queries_.q().panel_rows(), 0.0f);
    if (distance_bias_) distance_bias_.BeginBlock();
    queries_.ForEachBlock([&](const Keys& keys) { RunKeys(keys); });
    if (AnyNaN()) RunQueriesCarefully();
    StoreQueries();
    if (distance_bias_) distance_bias_.EndBlock(block, queries_.terms().seen().count());
    if (!sinks_.values.empty()) AddSinks();
  }

  void RunKeys(const Keys& keys) {
    SeenRows seen[kMostPanels];
    size_t rows = 0;
    for (size_t p = 0; p < queries_.panels(); p++) {
      seen[p] = queries_.terms().Seen(queries_.PanelAt(p), keys);
      if (seen[p].empty()) {
        seen[p] = {};
        key_gradients_.KeepNothing(queries_.PanelAt(p), keys);
        continue;
      }
      rows = std::max(rows, seen[p].end);
      RunPanel(p, keys, seen[p]);
    }
    if (rows == 0) return;
    const int64_t b = task_.sequence->batch, j = task_.sequence->first_key + keys.first;
    const size_t panels = queries_.panels(), last_lanes = queries_.PanelAt(panels - 1).vectors * kLanes;
    key_gradients_.AddTo(panels, last_lanes, seen, rows, backward_.v->row(task_.chunk, b, task_.key_head, j),
                         backward_.v->stride(task_.chunk), backward_.k->row(task_.chunk, b, task_.key_head, j),
                         backward_.k->stride(task_.chunk));
  }

  void RunPanel(size_t p, const Keys& keys, const SeenRows& seen) {
    const QueryPanel panel = queries_.PanelAt(p);
    float* gradient = key_gradients_.gradient(p);
    queries_.Gradients(p, keys, seen, key_gradients_.weights(p) + seen.begin * kPanel, gradient + seen.begin * kPanel);
    AddToTerms(p, keys, seen, gradient + seen.begin * kPanel);
    if (queries_.terms().softcap())
      queries_.terms().softcap().Differentiate(panel.vectors, seen.count(), gradient + seen.begin * kPanel);
    key_gradients_.Keep(panel, keys, seen);
    queries_.arithmetic().AddKeys(panel, keys, seen, false, gradient + seen.begin * kPanel, GradQ(p));
  }

  void AddToTerms(size_t p, const KeyBlock& keys, const SeenRows& seen, const float* gradient) {
    const QueryPanel panel = queries_.PanelAt(p);
    const TilePlace place = ScoreTerms::PlaceOf(panel, keys, seen);
    if (key_bias_) key_bias_.Add(place, gradient);
    if (distance_bias_) distance_bias_.Add(place, gradient);
    if (mask_) mask_.Add(queries_.block(), place, gradient);
  }

  // grad_q of panel p, still without the scale.
  float* GradQ(size_t p) const { return grad_q_ + p * kPanel * queries_.q().panel_rows(); }

  bool AnyNaN() const {
    for (size_t p = 0; p < queries_.panels(); p++)
      if (HasNaN(queries_.q().channels, queries_.PanelAt(p).count, GradQ(p))) return true;
    return false;
  }

  // Recomputes only grad_q, so that NaN in keys that a query does not see stays out of its gradient.
  void RunQueriesCarefully() {
    detail::Arena arena;
    float* weights = arena.take(kTileSize);
    float* gradient = arena.take(kTileSize);
    std::fill_n(grad_q_, queries_.panels() * kPanel * queries_.q().panel_rows(), 0.0f);
    queries_.ForEachBlock([&](const Keys& keys) {
      for (size_t p = 0; p < queries_.panels(); p++) {
        const QueryPanel panel = queries_.PanelAt(p);
        const SeenRows seen = queries_.terms().Seen(panel, keys);
        if (seen.empty()) continue;
        queries_.Gradients(p, keys, seen, weights, gradient);
        if (queries_.terms().softcap()) queries_.terms().softcap().Differentiate(panel.vectors, seen.count(), gradient);
        queries_.arithmetic().AddKeys(panel, keys, seen, true, gradient, GradQ(p));
      }
    });
  }

  void StoreQueries() {
    const detail::QueryBlock& block = queries_.block();
    const size_t stride = queries_.q().panel_rows();
    float* rows = grad_rows_ ? grad_rows_ : queries_.spare_rows();
    HWY_ALIGN float scale[kPanel];
    std::fill_n(scale, kPanel, static_cast<float>(call_.scale));
    for (size_t p = 0; p < queries_.panels(); p++)
      PanelToRows(grad_q_ + p * kPanel * stride, queries_.q().channels, scale, rows + p * kPanel * stride, stride);
    if (queries_.terms().query_scale()) ScaleQueryRows(rows, stride);
    detail::rotate_back(call_.options.q_rotary, block.sequence->batch, block.head, block.first, block.count,
                        call_.channels, rows, static_cast<int64_t>(stride));
    detail::write_rows(backward_.output->q, block.sequence->batch, block.head, block.first, block.count, rows,
                       static_cast<int64_t>(stride));
  }

  // From scale g to the gradients of q and of its factors.
  void ScaleQueryRows(float* rows, size_t stride) {
    const detail::QueryBlock& block = queries_.block();
    for (size_t i = 0; i < queries_.count(); i++) {
      float* row = rows + i * stride;
      if (query_scale_) query_scale_.Add(block.head, RowOf(i), queries_.q().data + i * queries_.q().stride, row);
      const float factor = queries_.terms().query_scale().At(RowOf(i));
      for (int64_t c = 0; c < call_.channels; c++) row[c] *= factor;
    }
  }

  void AddSinks() {
    const int64_t head = queries_.block().head;
    const double sink = detail::SinkOption::score(call_, head);
    for (size_t lane = 0; lane < queries_.count(); lane++)
      *sinks_.row(head) += detail::SinkOption::gradient(queries_.WeightOf(sink, lane), queries_.delta(lane));
  }

  static constexpr size_t kMostPanels = detail::kMostQueriesOfABlock / kPanel + 1;

  const detail::BackwardJob& backward_;
  const detail::AttentionCall& call_;
  detail::BackwardTask& task_;
  detail::Arena arena_;
  StagedQueries<Arithmetic> queries_;
  KeyGradients key_gradients_;
  KeyBiasGradient key_bias_;
  DistanceBiasGradient distance_bias_;
  MaskGradient mask_;
  QueryScaleGradient query_scale_;
  detail::SinkSums& sinks_;
  float* grad_q_ = nullptr;     // [panel][channels][kPanel]
  float* grad_rows_ = nullptr;  // the same in rows, where the rows of q are still needed
};

void RunBackwardTask(const detail::BackwardJob& job, const TensorView<float, 4>& mask, detail::BackwardTask& task) {
  if (job.job->narrow)
    BackwardRun<PairArithmetic, PairKeyGradients>(job, mask, task).Run();
  else
    BackwardRun<FloatArithmetic, FloatKeyGradients>(job, mask, task).Run();
}

// The gradient of an additive mask for the queries of a MaskTask, over all sequences and heads that share its elements.
class MaskRun {
 public:
  MaskRun(const detail::BackwardJob& backward, const detail::MaskTask& task, const detail::Sequence& sequence)
      : backward_(backward),
        task_(task),
        sequence_(sequence),
        queries_(backward, sequence, arena_),
        gradient_(backward.output->mask, arena_),
        weights_(arena_.take(kTileSize)),
        tile_(arena_.take(kTileSize)) {}

  void Run() {
    const TensorView<float, 4>& mask = backward_.output->mask;
    if (mask.shape[0] != 1 && sequence_.batch != task_.batch) return;
    const int64_t heads = backward_.job->call->heads;
    for (int64_t head = 0; head < heads; head++)
      if (mask.shape[1] == 1 || head == task_.head)
        for (const detail::QueryBlock& block : detail::query_blocks(sequence_, head, backward_.queries_of_a_block))
          RunBlock(block);
  }

 private:
  void RunBlock(detail::QueryBlock block) {
    const int64_t end = std::min(block.first + block.count, task_.end);
    block.first = std::max(block.first, task_.first);
    block.count = end - block.first;
    if (block.count <= 0) return;
    queries_.Load(block);
    queries_.ForEachBlock([&](const FloatKeys& keys) {
      for (size_t p = 0; p < queries_.panels(); p++) AddPanel(p, keys);
    });
  }

  void AddPanel(size_t p, const FloatKeys& keys) {
    const QueryPanel panel = queries_.PanelAt(p);
    const SeenRows seen = queries_.terms().Seen(panel, keys);
    if (seen.empty()) return;
    queries_.Gradients(p, keys, seen, weights_, tile_);
    gradient_.Add(queries_.block(), ScoreTerms::PlaceOf(panel, keys, seen), tile_);
  }

  const detail::BackwardJob& backward_;
  const detail::MaskTask& task_;
  const detail::Sequence& sequence_;
  detail::Arena arena_;
  StagedQueries<FloatArithmetic> queries_;
  MaskGradient gradient_;
  float* weights_;
  float* tile_;
};

void RunMaskTask(const detail::BackwardJob& job, const detail::MaskTask& task) {
  for (const detail::Sequence& sequence : job.job->call->sequences) MaskRun(job, task, sequence).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(RunBackwardTask);
HWY_EXPORT(RunMaskTask);

namespace {

// Chunks of queries when there are few heads: enough tasks for some threads, decided by the shape alone.
std::int64_t chunks_of(const AttentionCall& call) {
  constexpr std::int64_t kEnoughTasks = 8, kLeastQueries = 1024;
  const std::int64_t tasks = static_cast<std::int64_t>(call.sequences.size()) * call.key_heads;
  const std::int64_t wanted = (kEnoughTasks + tasks - 1) / std::max<std::int64_t>(tasks, 1);
  return std::clamp<std::int64_t>(call.queries * call.group() / kLeastQueries, 1, std::max<std::int64_t>(wanted, 1));
}

List<BackwardTask> make_tasks(const AttentionCall& call, const BackwardOutput& output, std::int64_t chunks) {
  List<BackwardTask> tasks;
  for (const Sequence& sequence : call.sequences)
    for (std::int64_t g = 0; g < call.key_heads; g++)
      for (std::int64_t c = 0; c < chunks; c++) {
        BackwardTask task{.sequence = &sequence, .key_head = g, .chunk = c, .chunks = chunks};
        std::apply([&](auto&... sums) { (sums.prepare(call, output), ...); }, task.sums);
        tasks.push_back(std::move(task));
      }
  return tasks;
}

void reduce_sums(const AttentionCall& call, const List<BackwardTask>& tasks, const BackwardOutput& output) {
  std::apply([&](const auto&... sums) { (sums.reduce(call, tasks, output), ...); }, TermSums());
}

void clear_mask_gradient(const TensorView<float, 4>& mask) {
  parallel_for(mask.shape[0] * mask.shape[1], [&](std::int64_t i) {
    const TensorView<float, 2> rows = mask[i / mask.shape[1]][i % mask.shape[1]];
    for (std::int64_t row = 0; row < rows.shape[0]; row++) std::fill_n(&rows(row, 0), rows.shape[1], 0.0f);
  });
}

// Whether two tasks would add to the same element of the mask's gradient: tasks are sequences, key heads and chunks of
// queries.
bool tasks_share_mask(const AttentionCall& call, const TensorView<float, 4>& mask, std::int64_t chunks) {
  const bool ragged = static_cast<std::int64_t>(call.sequences.size()) > call.batch;
  return (mask.shape[0] == 1 && call.batch > 1) || (mask.shape[1] == 1 && call.key_heads > 1) ||
         (mask.shape[2] == 1 && (chunks > 1 || ragged));
}

void mask_backward(const BackwardJob& job) {
  const TensorView<float, 4>& mask = job.output->mask;
  const AttentionCall& call = *job.job->call;
  const std::int64_t queries = call.queries;
  const std::int64_t step = mask.shape[2] == 1 ? std::max<std::int64_t>(queries, 1) : job.queries_of_a_block;
  List<MaskTask> tasks;
  for (std::int64_t b = 0; b < mask.shape[0]; b++)
    for (std::int64_t h = 0; h < mask.shape[1]; h++)
      for (std::int64_t first = 0; first < queries; first += step)
        tasks.push_back({b, h, first, std::min(first + step, queries)});
  run_tasks(static_cast<std::int64_t>(tasks.size()), multiplications_of(call), [&](std::int64_t i) {
    PHASOR_DISPATCH(RunMaskTask)(job, tasks[static_cast<std::size_t>(i)]);
  });
}

}  // namespace

void backward(const AttentionCall& call, const BackwardInput& input, const BackwardOutput& output) {
  const std::int64_t queries_of_a_block = call.channels + call.value_channels <= 160 ? 128 : 64;
  const Job job(call, queries_of_a_block, NarrowUse::backward);
  const std::int64_t chunks = chunks_of(call);
  GradientRows k(output.k, chunks), v(output.v, chunks);
  const BackwardJob backward_job{&job, &input, &output, &k, &v, queries_of_a_block};
  if (output.mask.data) clear_mask_gradient(output.mask);
  const bool shared = output.mask.data && tasks_share_mask(call, output.mask, chunks);
  const TensorView<float, 4> mask = shared ? TensorView<float, 4>{} : output.mask;
  List<BackwardTask> tasks = make_tasks(call, output, chunks);
  run_tasks(static_cast<std::int64_t>(tasks.size()), multiplications_of(call), [&](std::int64_t i) {
    PHASOR_DISPATCH(RunBackwardTask)(backward_job, mask, tasks[static_cast<std::size_t>(i)]);
  });
  k.finish(call.options.k_rotary);
  v.finish({});
  reduce_sums(call, tasks, output);
  if (shared) mask_backward(backward_job);
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
