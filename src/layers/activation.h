// Activations of feed-forward layers over contiguous arrays, in one pass forward and one backward. Values are right to
// a few ulps; values that vanish are right to 2^-100.
#pragma once

#include <cstdint>

#include "phasor/layers/feed_forward.h"

namespace phasor::detail {

// act = silu(gate) * up, where silu(g) = g / (1 + e^-g). act may be gate or up itself.
void swiglu(const float* gate, const float* up, float* act, std::int64_t count);

// The gradients of gate and up from that of act. act is recomputed and overwrites its gradient, because the gradient of
// the next matrix needs it.
struct SwiGluGradient {
  const float *gate = nullptr, *up = nullptr;
  float* grad_act_to_act = nullptr;
  float *grad_gate = nullptr, *grad_up = nullptr;
};
void swiglu_backward(const SwiGluGradient& arrays, std::int64_t count);

// act = gelu(x). act may be x itself.
void gelu(Gelu form, const float* x, float* act, std::int64_t count);

struct GeluGradient {
  const float* x = nullptr;
  float* grad_act_to_act = nullptr;
  float* grad_x = nullptr;
};
void gelu_backward(Gelu form, const GeluGradient& arrays, std::int64_t count);

}  // namespace phasor::detail
