#include "backward.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backward.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "staged_queries-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Gradients of the queries of a task, and their share of the gradients of keys, values and tables.
class BackwardRun {
 public:
  BackwardRun(const detail::BackwardJob& backward, detail::BackwardTask& task)
      : backward_(backward),
        call_(*backward.job->call),
        task_(task),
        arena_(detail::Arena::begin()),
        queries_(backward, *task.sequence, arena_) {
    const size_t lanes = WholePanels(backward.queries_of_a_block), panels = lanes / kPanel;
    q_strips_ = arena_.take(StripsSize(lanes, static_cast<size_t>(call_.channels)));
    grad_out_strips_ = arena_.take(StripsSize(lanes, static_cast<size_t>(call_.value_channels)));
    grad_q_ = TakeRows(arena_, backward.queries_of_a_block, call_.channels);
    weights_ = arena_.take(panels * kTileSize);
    gradients_ = arena_.take(panels * kTileSize);
    const auto keys = static_cast<size_t>(task.sequence->keys);
    if (backward.output->key_bias.data) {
      column_sums_ = arena_.take(keys * kLanes);
      std::fill_n(column_sums_, keys * kLanes, 0.0f);
    }
    if (backward.output->relative_bias.data) {
      diagonals_ = arena_.take(keys + lanes + 2 * kPanel);
      float* skew = arena_.take((kMostKeys + 1) * kSkewStride);
      std::fill_n(skew, (kMostKeys + 1) * kSkewStride, 0.0f);
      skew_ = skew + kSkewStride;  // zeros before the first row too
    }
  }

  void Run() {
    const int64_t group = call_.group();
    for (int64_t h = 0; h < group; h++) {
      const detail::List<detail::QueryBlock> blocks =
          detail::query_blocks(*task_.sequence, task_.key_head * group + h, backward_.queries_of_a_block);
      for (size_t i = 0; i < blocks.size(); i++)
        if (ChunkOf(static_cast<int64_t>(i)) == task_.chunk) RunBlock(blocks[i]);
    }
    if (column_sums_) FoldColumnSums();
  }

 private:
  // Blocks are assigned to chunks back and forth, so that each chunk has the same work under a causal mask.
  int64_t ChunkOf(int64_t i) const {
    const int64_t round = i / task_.chunks, place = i % task_.chunks;
    return round % 2 ? task_.chunks - 1 - place : place;
  }

  void RunBlock(const detail::QueryBlock& block) {
    queries_.Load(block);
    const size_t lanes = queries_.panels() * kPanel;
    RowsToStrips(queries_.q(), lanes, static_cast<float>(call_.scale), q_strips_);
    RowsToStrips(queries_.grad_out(), lanes, 1.0f, grad_out_strips_);
    std::fill_n(grad_q_, lanes * queries_.q().panel_rows(), 0.0f);
    if (diagonals_) std::fill_n(diagonals_, DiagonalCount() + 2 * kPanel, 0.0f);
    queries_.ForEachBlock([&](const KeyBlock& keys) { RunKeys(keys); });
    if (AnyNaN()) RunQueriesCarefully();
    StoreQueries();
    if (diagonals_) FoldDiagonals();
    if (!task_.sinks.empty()) FoldSinks();
  }

  size_t DiagonalCount() const {
    return static_cast<size_t>(std::max<int64_t>(0, queries_.seen().end - queries_.seen().begin)) + queries_.count();
  }

  void RunKeys(const KeyBlock& keys) {
    SeenRows seen[kMostPanels];
    size_t rows = 0;
    for (size_t p = 0; p < queries_.panels(); p++) {
      seen[p] = RowsSeen(queries_.scoring(), queries_.PanelAt(p), keys);
      if (seen[p].empty()) {
        seen[p] = {};
        continue;
      }
      rows = std::max(rows, seen[p].end);
      RunPanel(p, keys, seen[p]);
    }
    if (rows == 0) return;
    const int64_t b = task_.sequence->batch, j = task_.sequence->first_key + keys.first;
    const size_t panels = queries_.panels(), last_lanes = queries_.PanelAt(panels - 1).vectors * kLanes;
    const PanelTiles weights{weights_, panels, last_lanes, seen}, gradients{gradients_, panels, last_lanes, seen};
    AddOuterProduct(rows, static_cast<size_t>(call_.value_channels), weights, grad_out_strips_,
                    backward_.v->row(task_.chunk, b, task_.key_head, j),
                    static_cast<size_t>(backward_.v->stride(task_.chunk)));
    AddOuterProduct(rows, static_cast<size_t>(call_.channels), gradients, q_strips_,
                    backward_.k->row(task_.chunk, b, task_.key_head, j),
                    static_cast<size_t>(backward_.k->stride(task_.chunk)));
  }

  void RunPanel(size_t p, const KeyBlock& keys, const SeenRows& seen) {
    float* weights = weights_ + p * kTileSize;
    float* gradient = gradients_ + p * kTileSize;
    const size_t rows = seen.end - seen.begin;
    const int64_t first = keys.first + static_cast<int64_t>(seen.begin);
    ScoreGradientExtras extras;
    if (column_sums_) extras.column_sums = column_sums_ + static_cast<size_t>(first) * kLanes;
    extras.skew = skew_;
    queries_.Gradients(p, keys, seen, extras, true, weights + seen.begin * kPanel, gradient + seen.begin * kPanel);
    if (diagonals_) {
      const Scoring& scoring = queries_.scoring();
      AddDiagonals(rows, skew_,
                   diagonals_ + (queries_.PanelAt(p).position - scoring.first_position) + (scoring.last_key - first));
    }
    ClearAround(seen, weights);
    ClearAround(seen, gradient);
    AddKeys(AddWeightedRows, p, keys, seen, gradient + seen.begin * kPanel);
  }

  // grad_q of panel p, still without the scale.
  template <class AddRows>
  void AddKeys(const AddRows& add_rows, size_t p, const KeyBlock& keys, const SeenRows& seen, const float* gradient) {
    add_rows(queries_.PanelAt(p).vectors, static_cast<size_t>(call_.channels), seen.end - seen.begin,
             keys.k + seen.begin * keys.k_stride, keys.k_stride, gradient, queries_.ones(),
             grad_q_ + p * kPanel * queries_.q().panel_rows(), nullptr);
  }

  bool AnyNaN() const {
    for (size_t p = 0; p < queries_.panels(); p++)
      if (HasNaN(queries_.q().channels, queries_.PanelAt(p).count, grad_q_ + p * kPanel * queries_.q().panel_rows()))
        return true;
    return false;
  }

  // Recomputes only grad_q, so that NaN in keys that a query does not see stays out of its gradient.
  void RunQueriesCarefully() {
    std::fill_n(grad_q_, queries_.panels() * kPanel * queries_.q().panel_rows(), 0.0f);
    queries_.ForEachBlock([&](const KeyBlock& keys) {
      for (size_t p = 0; p < queries_.panels(); p++) {
        const SeenRows seen = RowsSeen(queries_.scoring(), queries_.PanelAt(p), keys);
        if (seen.empty()) continue;
        queries_.Gradients(p, keys, seen, {}, true, weights_, gradients_);
        AddKeys(AddWeightedRowsCarefully, p, keys, seen, gradients_);
      }
    });
  }

  void StoreQueries() {
    const detail::QueryBlock& block = queries_.block();
    const size_t stride = queries_.q().panel_rows();
    float* rows = queries_.spare_rows();
    HWY_ALIGN float scale[kPanel];
    std::fill_n(scale, kPanel, static_cast<float>(call_.scale));
    for (size_t p = 0; p < queries_.panels(); p++)
      PanelToRows(grad_q_ + p * kPanel * stride, queries_.q().channels, scale, rows + p * kPanel * stride, stride);
    detail::rotate_back(call_.options.rotate_q, block.sequence->batch, block.first, block.count, call_.channels, rows,
                        static_cast<int64_t>(stride));
    detail::write_rows(backward_.output->q, block.sequence->batch, block.head, block.first, block.count, rows,
                       static_cast<int64_t>(stride));
  }

  void FoldColumnSums() {
    for (int64_t j = 0; j < task_.sequence->keys; j++) {
      const float* lanes = column_sums_ + static_cast<size_t>(j) * kLanes;
      float sum = 0.0f;
      for (size_t z = 0; z < kLanes; z++) sum += lanes[z];
      task_.key_bias[static_cast<size_t>(task_.sequence->first_key + j)] = sum;
    }
  }

  void FoldDiagonals() {
    const RelativeBiasView& bias = *call_.options.relative_bias;
    const int64_t span = bias.table.shape[1];
    double* table = task_.relative_bias.data() + (queries_.block().head % call_.group()) * span;
    const Scoring& scoring = queries_.scoring();
    const int64_t index = scoring.last_key - scoring.first_position - bias.first_distance;
    for (int64_t x = 0; x < static_cast<int64_t>(DiagonalCount()); x++)
      table[std::clamp<int64_t>(index - x, 0, span - 1)] += static_cast<double>(diagonals_[x]);
  }

  // The sink's weight is 2^(sink - lse) and its value 0: its score has the gradient weight * (0 - delta).
  void FoldSinks() {
    const int64_t head = queries_.block().head;
    const double sink = static_cast<double>(call_.options.sinks[static_cast<size_t>(head)]) / detail::kLn2;
    double& sum = task_.sinks[static_cast<size_t>(head % call_.group())];
    for (size_t lane = 0; lane < queries_.count(); lane++)
      sum -= queries_.WeightOf(sink, lane) * static_cast<double>(queries_.delta()[lane]);
  }

  static constexpr size_t kMostPanels = detail::kMostQueriesOfABlock / kPanel + 1;

  const detail::BackwardJob& backward_;
  const detail::AttentionCall& call_;
  detail::BackwardTask& task_;
  detail::Arena& arena_;
  StagedQueries queries_;
  float* q_strips_ = nullptr;
  float* grad_out_strips_ = nullptr;
  float* grad_q_ = nullptr;       // [panel][channels][kPanel]
  float* weights_ = nullptr;      // a tile for each panel
  float* gradients_ = nullptr;    // a tile for each panel
  float* column_sums_ = nullptr;  // [keys of the sequence][kLanes]
  float* diagonals_ = nullptr;    // by the index of Scoring::relative
  float* skew_ = nullptr;
};

void RunBackwardTask(const detail::BackwardJob& job, detail::BackwardTask& task) { BackwardRun(job, task).Run(); }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(RunBackwardTask);

namespace {

// Chunks of queries when there are few heads: enough tasks for some threads, decided by the shape alone.
std::int64_t chunks_of(const AttentionCall& call) {
  constexpr std::int64_t kEnoughTasks = 8, kLeastQueries = 1024;
  const std::int64_t tasks = static_cast<std::int64_t>(call.sequences.size()) * call.key_heads;
  const std::int64_t wanted = (kEnoughTasks + tasks - 1) / std::max<std::int64_t>(tasks, 1);
  return std::clamp<std::int64_t>(call.queries * call.group() / kLeastQueries, 1, std::max<std::int64_t>(wanted, 1));
}

List<BackwardTask> make_tasks(const AttentionCall& call, const BackwardOutput& output, std::int64_t chunks) {
  const auto group = static_cast<std::size_t>(call.group());
  List<BackwardTask> tasks;
  for (const Sequence& sequence : call.sequences)
    for (std::int64_t g = 0; g < call.key_heads; g++)
      for (std::int64_t c = 0; c < chunks; c++) {
        BackwardTask task{.sequence = &sequence, .key_head = g, .chunk = c, .chunks = chunks};
        if (output.key_bias.data) task.key_bias.resize(static_cast<std::size_t>(call.keys));
        if (output.relative_bias.data)
          task.relative_bias.resize(group * static_cast<std::size_t>(output.relative_bias.shape[1]));
        if (output.sinks.data) task.sinks.resize(group);
        tasks.push_back(std::move(task));
      }
  return tasks;
}

void add_key_bias(const List<BackwardTask>& tasks, const TensorView<float, 3>& gradient) {
  fill_zero(gradient);
  for (const BackwardTask& task : tasks) {
    const std::int64_t b = gradient.shape[0] == 1 ? 0 : task.sequence->batch;
    const std::int64_t g = gradient.shape[1] == 1 ? 0 : task.key_head;
    for (std::int64_t j = 0; j < gradient.shape[2]; j++)
      gradient(b, g, j) += task.key_bias[static_cast<std::size_t>(j)];
  }
}

// Rows [group][columns] of the tasks, added to rows of a gradient [H, columns].
void add_by_head(const List<BackwardTask>& tasks, List<double> BackwardTask::*part, std::int64_t group,
                 const TensorView<float, 2>& gradient) {
  const auto columns = static_cast<std::size_t>(gradient.shape[1]);
  List<double> sums(static_cast<std::size_t>(gradient.shape[0]) * columns);
  for (const BackwardTask& task : tasks) {
    const std::size_t first = static_cast<std::size_t>(task.key_head * group) * columns;
    for (std::size_t i = 0; i < (task.*part).size(); i++) sums[first + i] += (task.*part)[i];
  }
  for (std::int64_t h = 0; h < gradient.shape[0]; h++)
    for (std::int64_t x = 0; x < gradient.shape[1]; x++)
      gradient(h, x) = static_cast<float>(sums[static_cast<std::size_t>(h) * columns + static_cast<std::size_t>(x)]);
}

}  // namespace

void backward(const AttentionCall& call, const BackwardInput& input, const BackwardOutput& output) {
  const std::int64_t queries_of_a_block = call.channels + call.value_channels <= 160 ? 128 : 64;
  const Job job(call, queries_of_a_block);
  const std::int64_t chunks = chunks_of(call);
  GradientRows k(output.k, chunks), v(output.v, chunks);
  const BackwardJob backward_job{&job, &input, &output, &k, &v, queries_of_a_block};
  List<BackwardTask> tasks = make_tasks(call, output, chunks);
  run_tasks(static_cast<std::int64_t>(tasks.size()), multiplications_of(call), [&](std::int64_t i) {
    PHASOR_DISPATCH(RunBackwardTask)(backward_job, tasks[static_cast<std::size_t>(i)]);
  });
  k.finish(call.options.rotate_k);
  v.finish({});
  if (output.key_bias.data) add_key_bias(tasks, output.key_bias);
  if (output.relative_bias.data) add_by_head(tasks, &BackwardTask::relative_bias, call.group(), output.relative_bias);
  if (output.sinks.data)
    add_by_head(tasks, &BackwardTask::sinks, call.group(),
                {output.sinks.data, {call.heads, 1}, {output.sinks.strides[0], 1}});
  if (output.mask.data) mask_backward(backward_job);
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
