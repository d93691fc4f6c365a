// The header of everything, with what phasor::attention has.
#include <phasor/phasor.h>

#include <algorithm>
#include <cstdio>

int main() {
  phasor::Tensor<float, 4> q({1, 2, 3, 4}), out(q.shape());
  std::fill(q.begin(), q.end(), 1.0f);
  phasor::attention_forward(q.view(), q.view(), q.view(), {.out = out.view()}, {.causal = true});
  std::printf("%g\n", out(0, 1, 2, 3));
}
