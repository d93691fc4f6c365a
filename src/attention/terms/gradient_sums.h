// Gradients of options that have a row for each head: summed by the tasks of the backward pass, then added in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "call.h"

namespace phasor::detail {

// Which of `rows` heads of an option or of its gradient belongs to a head of q: rows are H, G or 1.
inline std::int64_t head_row(const AttentionCall& call, std::int64_t rows, std::int64_t head) {
  return rows == 1 ? 0 : rows == call.heads ? head : head / call.group();
}

// The share of one task: all queries of one key head of one sequence. Option::gradient(output) is the wanted gradient,
// [B or 1, H or G or 1, columns], or has no data.
template <class Option>
struct GradientSums {
  List<double> values;    // [rows][columns]
  std::int64_t rows = 1;  // one for each head of the group, or one for all
  std::int64_t columns = 0;

  double* row(std::int64_t head) { return values.data() + (head % rows) * columns; }

  void prepare(const AttentionCall& call, const BackwardOutput& output) {
    const TensorView<float, 3> gradient = Option::gradient(output);
    if (!gradient.data) return;
    if (gradient.shape[1] == call.heads) rows = call.group();
    columns = gradient.shape[2];
    values.resize(static_cast<std::size_t>(rows * columns));
  }

  template <class Tasks>
  static void reduce(const AttentionCall& call, const Tasks& tasks, const BackwardOutput& output) {
    const TensorView<float, 3> gradient = Option::gradient(output);
    if (!gradient.data || gradient.size() == 0) return;
    ScratchZeros<double, 3> sums(gradient.shape);
    for (const auto& task : tasks) {
      const std::int64_t b = gradient.shape[0] == 1 ? 0 : task.sequence->batch;
      const GradientSums& own = std::get<GradientSums>(task.sums);
      for (std::int64_t row = 0; row < own.rows; row++) {
        double* to = &sums(b, head_row(call, gradient.shape[1], task.key_head * call.group() + row), 0);
        const double* from = own.values.data() + row * own.columns;
        for (std::int64_t x = 0; x < own.columns; x++) to[x] += from[x];
      }
    }
    for (std::int64_t b = 0; b < gradient.shape[0]; b++)
      for (std::int64_t h = 0; h < gradient.shape[1]; h++)
        for (std::int64_t x = 0; x < gradient.shape[2]; x++) gradient(b, h, x) = static_cast<float>(sums(b, h, x));
  }
};

// [H, columns] or [H] as [1, H, columns].
inline TensorView<float, 3> by_head(const TensorView<float, 2>& x) {
  return {x.data, {1, x.shape[0], x.shape[1]}, {0, x.strides[0], x.strides[1]}};
}
inline TensorView<float, 3> by_head(const TensorView<float, 1>& x) {
  return {x.data, {1, x.shape[0], 1}, {0, x.strides[0], 1}};
}

}  // namespace phasor::detail
