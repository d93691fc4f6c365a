// Which instruction set the kernels use. The build holds one version of every kernel for each set; the best
// that this CPU can run is chosen at run time. The environment variable PHASOR_SIMD_TARGET, read at the first
// kernel call, forces one by name (for tests): an unknown name is an error that lists the possible ones.
//
// Two targets are the best vectors and instructions that multiply bf16: AMX, which the float products of layers use
// too, and AVX512_BF16. EMU_BF16 is the same with plain code in place of such instructions: slow, on every CPU, for
// tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace phasor {

// The one in use, as reported by a kernel compiled for it: "AMX", "AVX512_BF16", "AVX3" (AVX-512), "AVX2", "SSE4", ...
std::string simd_target();

// Those that this build holds and this CPU can run, best first, then those that are not chosen; without EMU_BF16.
std::vector<std::string> simd_targets();

// Forces one of simd_targets(), or EMU_BF16; "" returns to the best. Not while kernels run in other threads.
void set_simd_target(std::string_view name);

}  // namespace phasor
