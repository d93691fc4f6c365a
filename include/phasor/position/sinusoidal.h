// Sinusoidal absolute positions (Vaswani et al. 2017, arXiv 1706.03762), added to the token embedding:
//   PE(position, 2i) = sin(position / theta^(2i/C)),   PE(position, 2i + 1) = cos(position / theta^(2i/C))
// Any length. PE(position + k) is a linear map of PE(position): each (sin, cos) pair is rotated by k / theta^(2i/C).
//
// What is added is amplitude * PE. The original has amplitude 1 and multiplies embeddings by sqrt(C), so that both are
// about as large. Where embeddings are small, as deviation 0.02 makes them, a small amplitude does the same, and leaves
// the sum as small as it is with other encodings.
#pragma once

#include <cstdint>
#include <string_view>

#include "phasor/core/tensor.h"
#include "phasor/position/plan.h"

namespace phasor {

struct SinusoidalConfig {
  static constexpr std::string_view kEncoding = "sinusoidal";
  double theta = 10000.0;
  double amplitude = 1.0;
  // Where the sine and cosine of an angle stand: next to each other, or all sines before all cosines, as in Marian.
  Pairing pairing = Pairing::adjacent;
};

// The table of positions 0 .. length - 1, [length, dim]; dim must be even.
Tensor<float, 2> sinusoidal_table(std::int64_t length, std::int64_t dim, double theta = 10000.0);

}  // namespace phasor
