// Positions that are added to token embeddings: what a plan's `add` table does.
#pragma once

#include "phasor/core/tensor.h"
#include "phasor/position/plan.h"

namespace phasor {

// x += plan.add, for x [B, T, C] and plan.add [B or 1, T, C]. A plan without `add` changes nothing.
void add_positions(const PositionPlan& plan, TensorView<float, 3> x);

// The gradient of x stays as it is, and is added to gradient.add, which is made, as zeros, when it is not there. One
// table for all sequences gets their sum, in the order of b.
void add_positions_backward(const PositionPlan& plan, TensorView<const float, 3> grad_x, PlanGradient& gradient);

}  // namespace phasor
