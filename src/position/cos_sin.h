// Cosines and sines of double angles, rounded to float.
#pragma once

#include <span>

namespace phasor {

// cos[i] = float(scale * cos(angles[i])), sin[i] = float(scale * sin(angles[i])), for angles of any size.
void cos_sin(std::span<const double> angles, double scale, float* cos, float* sin);

}  // namespace phasor
