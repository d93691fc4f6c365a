#include <phasor/layers/block.h>

#include <cstdio>

int main() {
  phasor::InitialValues initial(1);
  const phasor::Block block({.hidden_size = 8, .num_attention_heads = 2, .intermediate_size = 16}, initial);
  phasor::Tensor<float, 3> x({1, 3, 8}), y(x.shape());
  phasor::Workspace workspace;
  block.forward({x.view()}, {}, {.causal = true}, {y.view()}, nullptr, workspace);
  std::printf("%g\n", y(0, 2, 7));
}
