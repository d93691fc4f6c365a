#include <phasor/core/simd_target.h>
#include <phasor/position/alibi.h>

#include <cstdio>

int main() {
  for (const float slope : phasor::alibi_slopes(8)) std::printf("%g ", slope);
  std::printf("on %s\n", phasor::simd_target().c_str());
}
