#include "phasor/attention/attention.h"

#include "call.h"
#include "check_shapes.h"
#include "rotation_gradient.h"

namespace phasor::detail {

template <Element T>
void attention_forward(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
                       const TensorView<const T, 4>& v, const AttentionOutput<T>& output,
                       const AttentionOptions& options) {
  constexpr const char* kName = "attention_forward";
  const AttentionCall call = make_call(kName, q, k, v, options);
  const ForwardOutput any{output.out, output.lse, output.softmax, output.weights};
  check_forward(kName, call, any);
  forward(call, any);
}

template <Element T>
void attention_backward(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
                        const TensorView<const T, 4>& v, const AttentionBackwardInput<T>& input,
                        const AttentionGradients<T>& gradients, const AttentionOptions& options) {
  constexpr const char* kName = "attention_backward";
  const AttentionCall call = make_call(kName, q, k, v, options);
  const BackwardInput any{input.out, input.softmax, input.grad_out, input.grad_lse};
  BackwardOutput output = option_gradients(gradients);
  output.q = gradients.q, output.k = gradients.k, output.v = gradients.v;
  check_backward(kName, call, any, output);
  backward_with_tables(call, any, output);
}

// For the element types that kernels convert.
#define PHASOR_INSTANTIATE(T)                                                                                         \
  template void attention_forward(const TensorView<const T, 4>&, const TensorView<const T, 4>&,                       \
                                  const TensorView<const T, 4>&, const AttentionOutput<T>&, const AttentionOptions&); \
  template void attention_backward(const TensorView<const T, 4>&, const TensorView<const T, 4>&,                      \
                                   const TensorView<const T, 4>&, const AttentionBackwardInput<T>&,                   \
                                   const AttentionGradients<T>&, const AttentionOptions&)
PHASOR_INSTANTIATE(float);
PHASOR_INSTANTIATE(bf16);
PHASOR_INSTANTIATE(f16);
#undef PHASOR_INSTANTIATE

}  // namespace phasor::detail

namespace phasor {

void check_attention(const TensorView<const float, 4>& q, const TensorView<const float, 4>& k,
                     const TensorView<const float, 4>& v, const AttentionOptions& options) {
  detail::make_call("check_attention", q, k, v, options);
}

}  // namespace phasor
