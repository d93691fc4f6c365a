// Causal attention within a window: each query sees its own key and the three before it.
#include <phasor/phasor.h>

#include <cstdio>

int main() {
  phasor::Tensor<float, 4> q({1, 2, 8, 16}), k(q.shape()), v(q.shape()), out(q.shape());  // [B, H, T, D]
  phasor::Philox(1).fill_normal(q), phasor::Philox(2).fill_normal(k);
  for (std::int64_t h = 0; h < 2; h++)
    for (std::int64_t t = 0; t < 8; t++) v(0, h, t, 0) = static_cast<float>(t);  // so the result is a mean position
  phasor::attention_forward(q.view(), k.view(), v.view(), {.out = out.view()}, {.causal = true, .window = 4});
  std::printf("query 7 sees keys 4 to 7, on the average %.2f\n", out(0, 0, 7, 0));
}
