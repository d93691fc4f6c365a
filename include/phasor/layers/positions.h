// Positions that are added to token embeddings: the `add` table of a plan.
#pragma once

#include "phasor/core/tensor.h"
#include "phasor/position/plan.h"

namespace phasor {

// x += plan.add, for x [B, T, C] and plan.add [B or 1, T, C]. A plan without `add` changes nothing.
void add_positions(const PositionPlan& plan, TensorView<float, 3> x);

// Adds grad_x, which is not changed, to gradient.add, which is created as zeros if it is absent. A table that all
// sequences share gets their sum, in the order of b.
void add_positions_backward(const PositionPlan& plan, TensorView<const float, 3> grad_x, PlanGradient& gradient);

}  // namespace phasor
