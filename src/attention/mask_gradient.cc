#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mask_gradient.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "staged_queries-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// The gradient of the additive mask: that of the score itself, summed over the broadcast dimensions. A separate pass,
// so that no two tasks add to the same element.
class MaskRun {
 public:
  MaskRun(const detail::BackwardJob& backward, const detail::MaskTask& task)
      : backward_(backward), call_(*backward.job->call), task_(task) {}

  void Run() {
    const TensorView<float, 4>& mask = backward_.output->mask;
    const bool all_batches = mask.shape[0] == 1, all_heads = mask.shape[1] == 1;
    for (const detail::Sequence& sequence : call_.sequences) {
      if (!all_batches && sequence.batch != task_.batch) continue;
      for (int64_t head = 0; head < call_.heads; head++)
        if (all_heads || head == task_.head) RunHead(sequence, head);
    }
  }

 private:
  void RunHead(const detail::Sequence& sequence, int64_t head) {
    detail::Arena& arena = detail::Arena::begin();
    StagedQueries queries(backward_, sequence, arena);
    weights_ = arena.take(kTileSize);
    gradient_ = arena.take(kTileSize);
    rows_ = arena.take(kPanel * kMostKeys);
    for (detail::QueryBlock block : detail::query_blocks(sequence, head, backward_.queries_of_a_block)) {
      const int64_t end = std::min(block.first + block.count, task_.end);
      block.first = std::max(block.first, task_.first);
      block.count = end - block.first;
      if (block.count <= 0) continue;
      queries.Load(block);
      queries.ForEachBlock([&](const KeyBlock& keys) {
        for (size_t p = 0; p < queries.panels(); p++) AddPanel(queries, p, keys);
      });
    }
  }

  void AddPanel(const StagedQueries& queries, size_t p, const KeyBlock& keys) {
    const QueryPanel panel = queries.PanelAt(p);
    const SeenRows seen = RowsSeen(queries.scoring(), panel, keys);
    if (seen.empty()) return;
    const size_t rows = seen.end - seen.begin;
    queries.Gradients(p, keys, seen, {}, false, weights_, gradient_);
    PanelToRows(gradient_, rows, queries.ones(), rows_, kMostKeys);
    const TensorView<float, 4>& mask = backward_.output->mask;
    const auto stride = [&](size_t i) { return mask.shape[i] == 1 ? 0 : mask.strides[i]; };
    const int64_t key = queries.block().sequence->first_key + keys.first + static_cast<int64_t>(seen.begin);
    for (size_t z = 0; z < panel.count; z++) {
      const int64_t query = panel.first_query + static_cast<int64_t>(z);
      float* to = mask.data + task_.batch * stride(0) + task_.head * stride(1) + query * stride(2) + key * stride(3);
      const float* from = rows_ + z * kMostKeys;
      for (size_t j = 0; j < rows; j++) to[static_cast<int64_t>(j) * stride(3)] += from[j];
    }
  }

  const detail::BackwardJob& backward_;
  const detail::AttentionCall& call_;
  const detail::MaskTask& task_;
  float* weights_ = nullptr;
  float* gradient_ = nullptr;
  float* rows_ = nullptr;
};

void RunMaskTask(const detail::BackwardJob& job, const detail::MaskTask& task) { MaskRun(job, task).Run(); }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(RunMaskTask);

void mask_backward(const BackwardJob& job) {
  const TensorView<float, 4>& mask = job.output->mask;
  fill_zero(mask);
  const std::int64_t queries = job.job->call->queries;
  const std::int64_t step = mask.shape[2] == 1 ? std::max<std::int64_t>(queries, 1) : job.queries_of_a_block;
  List<MaskTask> tasks;
  for (std::int64_t b = 0; b < mask.shape[0]; b++)
    for (std::int64_t h = 0; h < mask.shape[1]; h++)
      for (std::int64_t first = 0; first < queries; first += step)
        tasks.push_back({b, h, first, std::min(first + step, queries)});
  run_tasks(static_cast<std::int64_t>(tasks.size()), multiplications_of(*job.job->call), [&](std::int64_t i) {
    PHASOR_DISPATCH(RunMaskTask)(job, tasks[static_cast<std::size_t>(i)]);
  });
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
