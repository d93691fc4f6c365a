// The end of a row's softmax, after all keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base2.h"
#include "call.h"

namespace phasor::detail {

struct SoftmaxEnd {
  float factor = 0.0f;        // of the sums of 2^(score - max) * value; 0 when no key was seen
  double max = 0, sum = 0.0;  // with the sink's share

  float lse() const { return sum == 0 ? -kInfinity : static_cast<float>((max + std::log2(sum)) * kLn2); }
};

// max: the largest score, base 2; sum: the sum of 2^(score - max). Includes the head's sink, if there is one.
inline SoftmaxEnd end_softmax(const AttentionCall& call, std::int64_t head, double max, double sum) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  double share = 1.0;
  if (!call.options.sinks.empty()) {
    const double sink = static_cast<double>(call.options.sinks[static_cast<std::size_t>(head)]) / kLn2;
    const double larger = std::max(max, sink);
    share = max == kNone ? 0.0 : std::exp2(max - larger);
    sum = sum * share + (sink == kNone ? 0.0 : std::exp2(sink - larger));
    max = larger;
  }
  if (sum == 0) return {};
  return {static_cast<float>(share / sum), max, sum};
}

}  // namespace phasor::detail
