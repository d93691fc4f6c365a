// Uses phasor::core alone: includes nothing of the other components and links none of them.
#include <phasor/core/simd_target.h>
#include <phasor/core/tensor.h>

#include <cstdio>

int main() {
  const phasor::Tensor<float, 2> tensor({2, 3});
  std::printf("%lld elements on %s\n", static_cast<long long>(tensor.size()), phasor::simd_target().c_str());
}
