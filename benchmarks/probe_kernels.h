// Kernels that do nothing but keep one part of the machine busy, in the SIMD target in use.
#pragma once

#include <cstdint>
#include <span>

namespace phasor::bench {

// Multiply-adds from registers only, on the calling thread; returns how many floating-point operations they were.
// `result`, a normal number first, must be looked at afterwards: work without use may be left out by the compiler.
double busy_fma(std::int64_t steps, float& result);

// The sum of all values: each is loaded once.
float sum(std::span<const float> values);

}  // namespace phasor::bench
