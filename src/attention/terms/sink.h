// Sinks: one more score in the softmax of each head, with value 0. It has no key, so it joins at the end of a row's
// softmax.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base2.h"
#include "call.h"
#include "check_shapes.h"
#include "terms/gradient_sums.h"

namespace phasor::detail {

struct SinkOption {
  static void check(const char* function, const AttentionCall& call) {
    const auto& sinks = call.options.sinks;
    PHASOR_CHECK(sinks.empty() || static_cast<std::int64_t>(sinks.size()) == call.heads, function,
                 "sinks: ", sinks.size(), " numbers, expected ", call.heads, ", one for each head of q");
  }

  static void list_inputs(const AttentionCall& call, List<Extent>& inputs) {
    inputs.push_back(extent("sinks", as_tensor(call.options.sinks)));
  }

  static void check_gradient(const char* function, const AttentionCall& call, const BackwardOutput& output,
                             List<Extent>& outputs) {
    const auto sinks = as_tensor(call.options.sinks);
    check_option_gradient(function, "grad_sinks", output.sinks, sinks.data, sinks.shape, outputs);
  }
  static TensorView<float, 3> gradient(const BackwardOutput& output) { return by_head(output.sinks); }
  // A query's share of it. The sink has this weight and the value 0.
  static double gradient(double weight, double delta) { return weight * (0 - delta); }

  // In base 2; -infinity without sinks.
  static double score(const AttentionCall& call, std::int64_t head) {
    const auto& sinks = call.options.sinks;
    if (sinks.empty()) return -std::numeric_limits<double>::infinity();
    return static_cast<double>(sinks[static_cast<std::size_t>(head)]) / kLn2;
  }
};

// The end of a row's softmax, after all keys.
struct SoftmaxEnd {
  float factor = 0.0f;        // of the sums of 2^(score - max) * value; 0 when no key was seen
  double max = 0, sum = 0.0;  // with the sink's share

  // Into the outputs that are given, at one row of q.
  void store(const ForwardOutput& output, std::int64_t b, std::int64_t h, std::int64_t i) const {
    if (output.lse.data) output.lse(b, h, i) = lse();
    if (!output.softmax.data) return;
    const float largest = sum == 0 ? -kInfinity : static_cast<float>(max);
    output.softmax(b, h, i, 0) = largest;
    output.softmax(b, h, i, 1) = sum == 0 ? 0.0f : static_cast<float>(sum * std::exp2(max - largest));
  }

  float lse() const { return sum == 0 ? -kInfinity : static_cast<float>((max + std::log2(sum)) * kLn2); }
};

// max: the largest score, base 2; sum: the sum of 2^(score - max). Includes the head's sink, if there is one.
inline SoftmaxEnd end_softmax(const AttentionCall& call, std::int64_t head, double max, double sum) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  double share = 1.0;
  if (!call.options.sinks.empty()) {
    const double sink = SinkOption::score(call, head), larger = std::max(max, sink);
    share = max == kNone ? 0.0 : std::exp2(max - larger);
    sum = sum * share + (sink == kNone ? 0.0 : std::exp2(sink - larger));
    max = larger;
  }
  if (sum == 0) return {};
  return {static_cast<float>(share / sum), max, sum};
}

using SinkSums = GradientSums<SinkOption>;

}  // namespace phasor::detail
