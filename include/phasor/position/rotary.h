// Rotation of the channel pairs of q and k.
#pragma once

#include "phasor/core/dtype.h"
#include "phasor/position/plan.h"

namespace phasor {

enum class Rotation {
  forward,
  // The gradient of forward: sin negated. It is the inverse too, but only when the attention factor is 1.
  transpose,
};

// out[b,h,t,:] = x[b,h,t,:] with its first 2 * pairs channels rotated by row (b, h, t) of the table; the other channels
// are copied. x and out are [B, H, T, D] with any outer strides, so [B, T, H, D] memory works through transposed(1, 2).
// The table has B or 1 sequences, H or 1 heads and at least T tokens. Arithmetic is float. out may be x itself;
// otherwise the two must not overlap.
void apply_rotary(TensorView<const float, 4> x, const RotaryView& table, TensorView<float, 4> out,
                  Rotation rotation = Rotation::forward);
void apply_rotary(TensorView<const bf16, 4> x, const RotaryView& table, TensorView<bf16, 4> out,
                  Rotation rotation = Rotation::forward);
void apply_rotary(TensorView<const f16, 4> x, const RotaryView& table, TensorView<f16, 4> out,
                  Rotation rotation = Rotation::forward);

// In place.
template <Element T>
void apply_rotary(TensorView<T, 4> x, const RotaryView& table, Rotation rotation = Rotation::forward) {
  apply_rotary(TensorView<const T, 4>(x), table, x, rotation);
}

}  // namespace phasor
