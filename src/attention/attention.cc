#include "phasor/attention/attention.h"

#include "call.h"

namespace phasor {
namespace {

template <class T>
void forward(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k, const TensorView<const T, 4>& v,
             const AttentionOutput<T>& output, const AttentionOptions& options) {
  const detail::AttentionCall call = detail::make_call("attention_forward", q, k, v, options);
  const detail::ForwardOutput any{output.out, output.lse, output.weights};
  detail::check_forward("attention_forward", call, any);
  detail::forward(call, any);
}

template <class T>
void backward(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k, const TensorView<const T, 4>& v,
              const AttentionResult<T>& result, const AttentionGradients<T>& gradients,
              const AttentionOptions& options) {
  const detail::AttentionCall call = detail::make_call("attention_backward", q, k, v, options);
  const detail::BackwardInput input{result.out, result.lse, result.grad_out, result.grad_lse};
  const detail::BackwardOutput output{gradients.q,    gradients.k,        gradients.v,
                                      gradients.mask, gradients.key_bias, gradients.relative_bias,
                                      gradients.sinks};
  detail::check_backward("attention_backward", call, input, output);
  detail::backward(call, input, output);
}

}  // namespace

void attention_forward(TensorView<const float, 4> q, TensorView<const float, 4> k, TensorView<const float, 4> v,
                       const AttentionOutput<float>& output, const AttentionOptions& options) {
  forward(q, k, v, output, options);
}
void attention_forward(TensorView<const bf16, 4> q, TensorView<const bf16, 4> k, TensorView<const bf16, 4> v,
                       const AttentionOutput<bf16>& output, const AttentionOptions& options) {
  forward(q, k, v, output, options);
}
void attention_forward(TensorView<const f16, 4> q, TensorView<const f16, 4> k, TensorView<const f16, 4> v,
                       const AttentionOutput<f16>& output, const AttentionOptions& options) {
  forward(q, k, v, output, options);
}

void attention_backward(TensorView<const float, 4> q, TensorView<const float, 4> k, TensorView<const float, 4> v,
                        const AttentionResult<float>& result, const AttentionGradients<float>& gradients,
                        const AttentionOptions& options) {
  backward(q, k, v, result, gradients, options);
}
void attention_backward(TensorView<const bf16, 4> q, TensorView<const bf16, 4> k, TensorView<const bf16, 4> v,
                        const AttentionResult<bf16>& result, const AttentionGradients<bf16>& gradients,
                        const AttentionOptions& options) {
  backward(q, k, v, result, gradients, options);
}
void attention_backward(TensorView<const f16, 4> q, TensorView<const f16, 4> k, TensorView<const f16, 4> v,
                        const AttentionResult<f16>& result, const AttentionGradients<f16>& gradients,
                        const AttentionOptions& options) {
  backward(q, k, v, result, gradients, options);
}

}  // namespace phasor
