// The rows of the registry, each defined beside its encoding, and what their functions share.
#pragma once

#include "phasor/position/encoding.h"

namespace phasor {

extern const Encoding kNone, kLearned, kSinusoidal, kRope, kAlibi, kT5, kRelative;

// For encodings of any length, and for those that learn always or never.
std::optional<std::int64_t> any_length(const EncodingConfig&);
bool always_learns(const EncodingConfig&);
bool never_learns(const EncodingConfig&);

// For encodings without parameters.
std::vector<Weight> no_parameters(const EncodingConfig&, const ModelShape&, std::uint64_t);
void no_gradient(const EncodingConfig&, std::span<Weight>, const Placement&, const PlanGradient&);

// A weight of this shape, zeros, alone in a list.
std::vector<Weight> one_weight(const char* name, const Shape<2>& shape);

// The values of the only weight, which must have the given shape.
TensorView<const float, 2> only_weight(std::string_view encoding, std::span<const Weight> weights,
                                       const Shape<2>& shape);

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
