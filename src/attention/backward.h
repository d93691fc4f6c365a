#pragma once

#include <cstdint>

#include "job.h"
#include "scratch/scratch.h"
#include "terms/terms-inl.h"

namespace phasor::detail {

// Gradients of k or v while they are summed: float rows padded to whole vectors. The queries of a head may be split
// into chunks with separate rows, which are added in order at the end: the same bits for any number of threads.
class GradientRows {
 public:
  GradientRows(const AnyOutput& out, std::int64_t chunks);

  float* row(std::int64_t chunk, std::int64_t b, std::int64_t g, std::int64_t j) {
    TensorView<float, 4>& rows = chunk == 0 ? first_ : others_[static_cast<std::size_t>(chunk) - 1];
    return rows.data + b * rows.strides[0] + g * rows.strides[1] + j * rows.strides[2];
  }
  std::int64_t stride(std::int64_t chunk) const {
    return (chunk == 0 ? first_ : others_[static_cast<std::size_t>(chunk) - 1]).strides[2];
  }

  // Adds the chunks, applies the transposed rotation and stores the rows.
  void finish(const std::optional<RotaryView>& rotation);

 private:
  void clear();
  void finish_rows(const std::optional<RotaryView>& rotation, std::int64_t b, std::int64_t g, std::int64_t first,
                   std::int64_t count);

  AnyOutput out_;
  bool in_place_;  // the first chunk is summed in the output itself
  Scratch scratch_;
  TensorView<float, 4> first_;
  List<TensorView<float, 4>> others_;
};

// The queries of all heads of one key head of one sequence, or a chunk of them. Gradients that several tasks share are
// summed in memory of the task and added up in task order.
struct BackwardTask {
  const Sequence* sequence = nullptr;
  std::int64_t key_head = 0, chunk = 0, chunks = 1;
  TermSums sums{};
};

struct BackwardJob {
  const Job* job = nullptr;
  const BackwardInput* input = nullptr;
  const BackwardOutput* output = nullptr;
  GradientRows* k = nullptr;
  GradientRows* v = nullptr;
  std::int64_t queries_of_a_block = 0;
};

// The gradient of an additive mask where several tasks would add to one element: a separate pass over the scores.
struct MaskTask {
  std::int64_t batch = 0, head = 0;  // of the gradient, 0 where it is broadcast
  std::int64_t first = 0, end = 0;   // rows of q
};

}  // namespace phasor::detail
