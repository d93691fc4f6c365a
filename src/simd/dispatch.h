// How the library calls a kernel: PHASOR_DISPATCH(Kernel)(arguments), after HWY_EXPORT(Kernel). It is Highway's
// dynamic dispatch, once the target requested by PHASOR_SIMD_TARGET (if any) has been set.
#pragma once

#include <hwy/highway.h>

namespace phasor {

void use_requested_simd_target();

// Whether the target in use is AMX.
bool uses_amx();

// What multiplies pairs of bf16 on the target in use (products/pairs.h). All but `plain` come with vectors of AVX-512.
enum class PairInstructions { none, plain, avx512_bf16, amx };
PairInstructions pair_instructions();

}  // namespace phasor

#define PHASOR_DISPATCH(kernel) (::phasor::use_requested_simd_target(), HWY_DYNAMIC_DISPATCH(kernel))

// The same for a kernel that also has a version for AMX, a function of the same type. AMX is a target of phasor, but
// not of Highway; kernels without a version for it run on the best vectors.
#define PHASOR_DISPATCH_WITH_AMX(kernel, amx_kernel) (::phasor::uses_amx() ? (amx_kernel) : PHASOR_DISPATCH(kernel))
