// Attention to two sets of keys from the results for each: out and log-sum-exp of both give those of all keys. So long
// caches can be split, keys can be shared by several sequences, and devices can each attend to a part.
//
//   lse = log(e^lse_a + e^lse_b),   out = e^(lse_a - lse) out_a + e^(lse_b - lse) out_b
//
// exactly but for rounding. A query that sees no key of either set gives 0, with log-sum-exp -infinity. A sink belongs
// to one of the two calls, not to both.
#pragma once

#include <type_traits>

#include "phasor/core/dtype.h"
#include "phasor/core/tensor.h"

namespace phasor {

// out [B, H, T, E] and lse [B, H, T].
template <class T>
struct PartialAttention {
  TensorView<T, 4> out{};
  TensorView<std::conditional_t<std::is_const_v<T>, const float, float>, 3> lse{};
};

// merged may be a or b itself.
template <Element T>
void merge_attention(const PartialAttention<const T>& a, const PartialAttention<const T>& b,
                     const PartialAttention<T>& merged);

// The gradients of the loss by both, from those by the merged result; grad.lse is optional.
template <Element T>
void merge_attention_backward(const PartialAttention<const T>& a, const PartialAttention<const T>& b,
                              const PartialAttention<const T>& merged, const PartialAttention<const T>& grad,
                              const PartialAttention<T>& grad_a, const PartialAttention<T>& grad_b);

}  // namespace phasor
