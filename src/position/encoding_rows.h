// The rows of the registry, each defined beside its encoding, and what their functions share.
#pragma once

#include "phasor/position/encoding.h"

namespace phasor {

extern const Encoding kNone, kLearned, kSinusoidal, kRope, kAlibi, kT5, kRelative;

// For encodings without parameters.
std::vector<Parameter> no_parameters(const EncodingConfig&, const ModelShape&, std::uint64_t);
void no_gradient(const EncodingConfig&, ParameterValues, const Placement&, const PlanGradient&,
                 std::span<Tensor<float, 2>>);

// The only parameter, of the given shape.
const Tensor<float, 2>& only_parameter(std::string_view encoding, ParameterValues values, const Shape<2>& shape);

double plain_score_scale(const ModelShape& shape);

// All distances key - query between the placed tokens: first, first + 1, ... first + count - 1.
struct DistanceRange {
  std::int64_t first = 0, count = 0;
};
DistanceRange distances(std::string_view encoding, const Placement& placement);

// Calls visit(h, column) for every entry of a bias table of these distances, or of its gradient.
template <class Visit>
void for_each_bias(const ModelShape& shape, const DistanceRange& range, const Visit& visit) {
  for (std::int64_t h = 0; h < shape.heads; h++)
    for (std::int64_t i = 0; i < range.count; i++) visit(h, i);
}

// The gradient of the plan's bias, checked against the shape the plan had.
const Tensor<float, 2>& bias_gradient(std::string_view encoding, const PlanGradient& gradient, const ModelShape& shape,
                                      const DistanceRange& range);

}  // namespace phasor
