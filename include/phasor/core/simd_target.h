// Which instruction set the kernels use. The build holds one version of every kernel for each set; the best
// that this CPU can run is chosen at run time. The environment variable PHASOR_SIMD_TARGET, read at the first
// kernel call, forces one by name (for tests): an unknown name is an error that lists the possible ones.
//
// AMX, where the CPU has it, is the best: the matrix products of layers use it, all other kernels the best vectors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace phasor {

// The one in use, as reported by a kernel compiled for it: "AMX", "AVX3" (AVX-512), "AVX2", "SSE4", ...
std::string simd_target();

// Those that this build holds and this CPU can run, best first.
std::vector<std::string> simd_targets();

// Forces one of simd_targets(); "" returns to the best. Not while kernels run in other threads.
void set_simd_target(std::string_view name);

}  // namespace phasor
