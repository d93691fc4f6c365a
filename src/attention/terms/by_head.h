// Gradients of options that have a row for each head of q.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call.h"

namespace phasor::detail {

// [H] as [H, 1].
inline TensorView<float, 2> by_head(const TensorView<float, 1>& gradient) {
  return {gradient.data, {gradient.shape[0], 1}, {gradient.strides[0], 1}};
}

// gradient [H, columns] = the sums of all tasks, added in order. values_of(task) has [heads of its group][columns].
template <class Tasks, class ValuesOf>
void add_by_head(const AttentionCall& call, const Tasks& tasks, const TensorView<float, 2>& gradient,
                 const ValuesOf& values_of) {
  if (!gradient.data) return;
  ScratchZeros<double, 2> sums(gradient.shape);
  for (const auto& task : tasks) {
    const List<double>& values = values_of(task);
    double* to = &sums(task.key_head * call.group(), 0);
    for (std::size_t i = 0; i < values.size(); i++) to[i] += values[i];
  }
  for (std::int64_t h = 0; h < gradient.shape[0]; h++)
    for (std::int64_t x = 0; x < gradient.shape[1]; x++) gradient(h, x) = static_cast<float>(sums(h, x));
}

}  // namespace phasor::detail
