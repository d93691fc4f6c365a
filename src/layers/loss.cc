#include "phasor/layers/loss.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loss.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "loss_row.h"
#include "simd/element-inl.h"
#include "simd/exp-inl.h"
#include "simd/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// NaN may be skipped here: it appears again in the sum.
HWY_INLINE float LargestOf(const float* x, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto m0 = hn::Set(d, x[0]), m1 = m0;
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
  for (; i < count; i++) largest = HWY_MAX(largest, x[i]);
  return largest;
}

// The sum of e^(x - largest), added up in double over parts; the terms are kept in `terms` unless it is null.
HWY_INLINE double SumOfExponentials(const float* x, float largest, size_t count, float* terms) {
  constexpr size_t kPart = 2048;
  double sum = 0;
  for (size_t first = 0; first < count; first += kPart)
    sum += static_cast<double>(SumOfTerms(HWY_MIN(kPart, count - first), [=](auto d, size_t i) HWY_ATTR {
      const auto e = Exp(d, hn::Sub(hn::LoadU(d, x + first + i), hn::Set(d, largest)));
      if (terms) hn::StoreU(e, d, terms + first + i);
      return e;
    }));
  return sum;
}

// Gives the loss; gradient = (softmax - one at the target) * scale. logits may be the gradient's memory.
double CrossEntropyRow(const detail::LossRow& row) {
  const auto count = static_cast<size_t>(row.classes);
  const float of_target = row.logits[row.target], largest = LargestOf(row.logits, count);
  const double sum = SumOfExponentials(row.logits, largest, count, row.gradient);
  if (row.gradient) {
    float* gradient = row.gradient;
    const auto factor = static_cast<float>(row.scale / sum);
    ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, gradient + i), hn::Set(d, factor)), d, gradient + i);
    });
    gradient[row.target] -= row.scale;
  }
  return std::log(sum) + (static_cast<double>(largest) - of_target);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "check_rows.h"
#include "row_tasks.h"
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(CrossEntropyRow);

namespace {

// How many rows count.
std::int64_t check(const TensorView<const float, 2>& logits, std::span<const std::int32_t> targets,
                   const CrossEntropyOutput& output) {
  constexpr const char* kName = "cross_entropy";
  const auto [rows, classes] = logits.shape;
  detail::check_rows(kName, "logits", logits, detail::kAnyCount, classes);
  PHASOR_CHECK(static_cast<std::int64_t>(targets.size()) == rows, kName, "targets: ", targets.size(), ", expected ",
               rows, " as logits has rows");
  if (output.grad_logits.data) detail::check_rows(kName, "grad_logits", output.grad_logits, rows, classes);
  PHASOR_CHECK(output.row_losses.empty() || output.row_losses.size() == targets.size(), kName,
               "row_losses: ", output.row_losses.size(), ", expected ", rows, " as logits has rows");
  std::int64_t counted = 0;
  for (std::size_t n = 0; n < targets.size(); n++) {
    if (targets[n] == kIgnoredTarget) continue;
    PHASOR_CHECK(targets[n] >= 0 && targets[n] < classes, kName, "targets: ", targets[n], " at ", n, ", expected 0 to ",
                 classes - 1, ", or ", kIgnoredTarget, " to leave the row out");
    counted++;
  }
  return counted;
}

}  // namespace

CrossEntropy cross_entropy(TensorView<const float, 2> logits, std::span<const std::int32_t> targets,
                           const CrossEntropyOutput& output, Workspace& workspace) {
  const std::int64_t counted = check(logits, targets, output);
  const auto [rows, classes] = logits.shape;
  const Workspace::Scope scope(workspace);
  float* losses = output.row_losses.empty() ? workspace.take(Shape<1>{rows}).data : output.row_losses.data();
  const TensorView<float, 2>& gradient = output.grad_logits;
  const float scale = 1.0f / static_cast<float>(std::max<std::int64_t>(1, counted));
  const auto kernel = PHASOR_DISPATCH(CrossEntropyRow);
  detail::for_each_rows(rows, classes, [&, classes = classes](std::int64_t first, std::int64_t count) {
    for (std::int64_t n = first; n < first + count; n++) {
      const std::int32_t target = targets[static_cast<std::size_t>(n)];
      float* row = gradient.data ? gradient.data + n * gradient.strides[0] : nullptr;
      if (target == kIgnoredTarget) {
        if (row) std::fill_n(row, classes, 0.0f);
        losses[n] = 0.0f;
      } else {
        losses[n] = static_cast<float>(kernel({logits.data + n * logits.strides[0], row, classes, target, scale}));
      }
    }
  });
  double sum = 0;
  for (std::int64_t n = 0; n < rows; n++) sum += static_cast<double>(losses[n]);
  return {counted ? sum / static_cast<double>(counted) : 0.0, counted};
}

}  // namespace phasor
#endif  // HWY_ONCE
