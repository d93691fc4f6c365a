// Wasserstein-2 attention: tokens are diagonal Gaussians N(mu, diag(sigma^2)), and scores are minus the squared
// 2-Wasserstein distance,
//
//   score(i, j) = -(|R q_mu_i - R k_mu_j|^2 + |q_sigma_i - k_sigma_j|^2) / (|tau| + eps)
//
// with eps 1e-6 and R the rotation of the means (options.q_rotary, k_rotary); sigma is not rotated. options.scale,
// here 1 unless given, multiplies the score; softcap, biases, masks, sinks and dropout follow as with dot products.
// Row-constant terms cancel in the softmax, so this is dot-product attention on the streams side by side, with a key
// bias: the same kernel, O(S) memory. The mean of a sample of keys is subtracted from q and k first, which changes no
// distance and reduces rounding errors (docs/numerics.md).
#pragma once

#include "phasor/attention/attention.h"

namespace phasor {

constexpr double kTauEps = 1e-6;

// The squared distance is divided by |tau| + eps. A number alone is tau.
struct W2Temperature {
  double tau = 1.0;
  double eps = kTauEps;

  constexpr W2Temperature(double temperature, double added = kTauEps) : tau(temperature), eps(added) {}
};

// Two streams of the same shape: mean, and the log of the VARIANCE, so that sigma = exp(log_sigma / 2).
template <class T>
struct W2Streams {
  TensorView<T, 4> mu{}, log_sigma{};

  // Streams of mutable memory are also streams for reading.
  operator W2Streams<const T>() const requires(!std::is_const_v<T>) { return {mu, log_sigma}; }
};

// As AttentionOutput.
template <Element T>
struct W2Output {
  W2Streams<T> out{};          // [B, H, T, E] each: weighted means of v.mu and v.log_sigma
  TensorView<float, 3> lse{};  // of the scores as written above
  TensorView<float, 4> softmax{};
  TensorView<float, 4> weights{};
};

// As AttentionBackwardInput.
template <Element T>
struct W2BackwardInput {
  W2Streams<const T> out{};
  TensorView<const float, 4> softmax{};
  W2Streams<const T> grad_out{};
  TensorView<const float, 3> grad_lse{};
};

// As AttentionGradients.
template <Element T>
struct W2Gradients {
  W2Streams<T> q{}, k{}, v{};
  double* tau = nullptr;
  RotaryGradient q_rotary{}, k_rotary{};
  TensorView<float, 3> query_scale{};
  TensorView<float, 4> mask{};
  TensorView<float, 3> key_bias{};
  TensorView<float, 2> relative_bias{};
  TensorView<float, 1> alibi_slopes{};
  TensorView<float, 1> sinks{};
};

namespace detail {

template <Element T>
void w2_attention_forward(const W2Streams<const T>& q, const W2Streams<const T>& k, const W2Streams<const T>& v,
                          W2Temperature temperature, const W2Output<T>& output, const AttentionOptions& options);
template <Element T>
void w2_attention_backward(const W2Streams<const T>& q, const W2Streams<const T>& k, const W2Streams<const T>& v,
                           W2Temperature temperature, const W2BackwardInput<T>& input, const W2Gradients<T>& gradients,
                           const AttentionOptions& options);

}  // namespace detail

// As check_attention.
void check_w2_attention(const W2Streams<const float>& q, const W2Streams<const float>& k,
                        const W2Streams<const float>& v, W2Temperature temperature,
                        const AttentionOptions& options = {});

// D and E are at most 256; with softcap, sinks, query_scale or key_bias D is at most 255. tau is finite, eps at least
// 0, their sum above 0. Products are those of options.precision for D up to 253, of floats beyond. T, the element type
// of all streams, is that of q: float, bf16 or f16.
template <class U, Element T = std::remove_const_t<U>>
void w2_attention_forward(const W2Streams<U>& q, const std::type_identity_t<W2Streams<const T>>& k,
                          const std::type_identity_t<W2Streams<const T>>& v, W2Temperature temperature,
                          const std::type_identity_t<W2Output<T>>& output, const AttentionOptions& options = {}) {
  detail::w2_attention_forward<T>(q, k, v, temperature, output, options);
}

template <class U, Element T = std::remove_const_t<U>>
void w2_attention_backward(const W2Streams<U>& q, const std::type_identity_t<W2Streams<const T>>& k,
                           const std::type_identity_t<W2Streams<const T>>& v, W2Temperature temperature,
                           const std::type_identity_t<W2BackwardInput<T>>& input,
                           const std::type_identity_t<W2Gradients<T>>& gradients,
                           const AttentionOptions& options = {}) {
  detail::w2_attention_backward<T>(q, k, v, temperature, input, gradients, options);
}

}  // namespace phasor
