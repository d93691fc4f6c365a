// Gradients of the tables that rotate q and k: for angles that are learned, or made from the tokens.
#pragma once

#include "call.h"
#include "scratch/scratch.h"

namespace phasor::detail {

// With rotated pair (a', b') = (a cos - b sin, b cos + a sin) and its gradient (g, h), the table's numbers have
//   d cos = g a + h b,   d sin = h a - g b,
// summed over the sequences and heads that share them. x: the rows before the rotation; gradient: of rotated rows, the
// first channels of each.
void rotation_gradient(const AnyView& x, const RotaryView& table, const Scratch& gradient, const RotaryGradient& to);

// backward() where gradients of tables are wanted: q or k are rotated first, in memory of the call.
void backward_with_tables(const AttentionCall& call, const BackwardInput& input, const BackwardOutput& output);

}  // namespace phasor::detail
