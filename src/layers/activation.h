// Activations of feed-forward layers over contiguous arrays, in one pass forward and one backward. Values are right to
// a few ulps; values that vanish are right to 2^-100.
#pragma once

#include <cstdint>

#include "phasor/layers/feed_forward.h"

namespace phasor::detail {

// act = f(x), or f(x) * up where there is an `up`. act may be x or up itself.
void activate(Activation f, const float* x, const float* up, float* act, std::int64_t count);

// The gradients of x and up from that of act. act is recomputed and overwrites its gradient, because the gradient of
// the next matrix needs it.
struct ActivationGradient {
  const float *x = nullptr, *up = nullptr;  // up and grad_up are null where there is no `up`
  float* grad_act_to_act = nullptr;
  float *grad_x = nullptr, *grad_up = nullptr;
};
void activate_backward(Activation f, const ActivationGradient& arrays, std::int64_t count);

}  // namespace phasor::detail
