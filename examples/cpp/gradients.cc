// Gradients of causal attention with ALiBi, also those of the slopes.
#include <phasor/phasor.h>

#include <cstdio>

using phasor::Tensor;

int main() {
  constexpr std::int64_t kHeads = 4, kTokens = 256, kHeadDim = 32;
  Tensor<float, 4> q({1, kHeads, kTokens, kHeadDim}), k(q.shape()), v(q.shape()), out(q.shape()), grad_out(q.shape());
  Tensor<float, 4> softmax({1, kHeads, kTokens, 2});  // for the backward pass
  phasor::Philox(1).fill_normal(q), phasor::Philox(2).fill_normal(k), phasor::Philox(3).fill_normal(v);
  phasor::Philox(4).fill_normal(grad_out);

  const phasor::AttentionOptions options{.causal = true, .alibi_slopes = phasor::alibi_slopes(kHeads)};
  phasor::attention_forward(q.view(), k.view(), v.view(), {.out = out.view(), .softmax = softmax.view()}, options);

  Tensor<float, 4> grad_q(q.shape()), grad_k(k.shape()), grad_v(v.shape());
  Tensor<float, 1> grad_slopes({kHeads});
  phasor::attention_backward(
      q.view(), k.view(), v.view(), {.out = out.view(), .softmax = softmax.view(), .grad_out = grad_out.view()},
      {.q = grad_q.view(), .k = grad_k.view(), .v = grad_v.view(), .alibi_slopes = grad_slopes.view()}, options);
  std::printf("q %.4f, k %.4f, v %.4f, slope %.2f\n", grad_q(0, 3, 255, 0), grad_k(0, 3, 255, 0), grad_v(0, 3, 255, 0),
              grad_slopes(3));
}
