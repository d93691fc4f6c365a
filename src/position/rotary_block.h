// What one task of apply_rotary does: some heads and tokens of one sequence.
#pragma once

#include <cstdint>

namespace phasor {

template <class T>
struct RotaryBlock {
  const T* x;
  T* out;
  const float *cos, *sin;
  std::int64_t x_head, x_token, out_head, out_token;  // strides
  std::int64_t cos_head, cos_token, sin_head, sin_token;
  std::int64_t heads, tokens, pairs, channels;
  std::int64_t prefetch;   // how far ahead on x, in elements
  std::uint32_t sin_sign;  // 0x80000000 rotates backwards
};

}  // namespace phasor
