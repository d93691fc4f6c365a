// What the files of RoPE share.
#pragma once

#include "phasor/position/rope.h"

namespace phasor {

// R: the rotary dimension, or the whole head.
std::int64_t rotated_channels(const RopeConfig& config);

// YaRN's growth of the logits with the factor: 0.1 mscale ln(factor) + 1.
double yarn_magnitude(double factor, double mscale);

// Frequencies of the 2-D layouts, axial and alternating.
RopeFrequencies two_axis_frequencies(const RopeConfig& config);

// The largest position + 1.
std::int64_t context_length(TensorView<const std::int64_t, 3> positions);

}  // namespace phasor
