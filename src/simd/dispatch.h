// How the library calls a kernel: PHASOR_DISPATCH(Kernel)(arguments), after HWY_EXPORT(Kernel). It is Highway's
// dynamic dispatch, once the target requested by PHASOR_SIMD_TARGET (if any) has been set.
#pragma once

#include <hwy/highway.h>

namespace phasor {

void use_requested_simd_target();

}  // namespace phasor

#define PHASOR_DISPATCH(kernel) (::phasor::use_requested_simd_target(), HWY_DYNAMIC_DISPATCH(kernel))
