// AMX, Intel's tiles of bf16 beside the vectors of AVX-512. Highway does not know it as a target; kernels that have a
// version for it ask here.
#pragma once

namespace phasor {

// Whether the target in use is AMX.
bool uses_amx();

}  // namespace phasor
