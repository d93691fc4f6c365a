// Wasserstein-2 attention: tokens are diagonal Gaussians N(mean, diag(sigma^2)), and scores are minus the squared
// 2-Wasserstein distance,
//
//   score(i, j) = -(|R q_mean_i - R k_mean_j|^2 + |q_sigma_i - k_sigma_j|^2) / (|tau| + epsilon)
//
// with epsilon 1e-6 and R the rotation of the means (options.rotate_q, rotate_k); sigma is not rotated. options.scale,
// here 1 unless given, multiplies the score; softcap, biases, masks, sinks and dropout follow as with dot products.
// Row-constant terms cancel in the softmax, so this is dot-product attention on the streams side by side, with a key
// bias: the same kernel, O(S) memory. The mean of a sample of keys is subtracted from q and k first, which changes no
// distance and reduces rounding errors (docs/numerics.md).
#pragma once

#include "phasor/attention/attention.h"

namespace phasor {

constexpr double kTauEpsilon = 1e-6;

// The squared distance is divided by |tau| + epsilon. A number alone is tau.
struct W2Temperature {
  double tau = 1.0;
  double epsilon = kTauEpsilon;

  constexpr W2Temperature(double temperature, double added = kTauEpsilon) : tau(temperature), epsilon(added) {}
};

// Two streams of the same shape: the mean and a second value that is averaged with the same weights (the log of the
// variance, in the W2 transformer).
template <class T, class Spread = T>
struct W2Streams {
  TensorView<T, 4> mean{};
  TensorView<Spread, 4> spread{};

  // Streams of mutable memory are also streams for reading.
  operator W2Streams<const T, const Spread>() const requires(!std::is_const_v<T>) { return {mean, spread}; }
};

// Those of q and k: mean and standard deviation sigma. sigma is float whatever the type of the means, since scores
// depend on differences of sigmas; sigma_forward makes it from log variances of any type.
template <class T>
using W2Gaussians = W2Streams<T, std::conditional_t<std::is_const_v<T>, const float, float>>;

template <Element T>
struct W2Output {
  W2Streams<T> out{};              // [B, H, T, E] each
  TensorView<float, 3> lse{};      // optional, of the scores as written above
  TensorView<float, 4> weights{};  // optional
};

template <Element T>
struct W2Result {
  W2Streams<const T> out{};
  TensorView<const float, 3> lse{};
  W2Streams<const T> grad_out{};
  TensorView<const float, 3> grad_lse{};  // optional
};

template <Element T>
struct W2Gradients {
  W2Gaussians<T> q{}, k{};
  W2Streams<T> v{};
  double* tau = nullptr;  // optional
  TensorView<float, 4> mask{};
  TensorView<float, 3> key_bias{};
  TensorView<float, 2> relative_bias{};
  TensorView<float, 1> sinks{};
};

// D and E are at most 256; with softcap or sinks D is at most 255. tau is finite, epsilon at least 0, their sum above
// 0.
void w2_attention_forward(W2Gaussians<const float> q, W2Gaussians<const float> k, W2Streams<const float> v,
                          W2Temperature temperature, const W2Output<float>& output,
                          const AttentionOptions& options = {});
void w2_attention_forward(W2Gaussians<const bf16> q, W2Gaussians<const bf16> k, W2Streams<const bf16> v,
                          W2Temperature temperature, const W2Output<bf16>& output,
                          const AttentionOptions& options = {});
void w2_attention_forward(W2Gaussians<const f16> q, W2Gaussians<const f16> k, W2Streams<const f16> v,
                          W2Temperature temperature, const W2Output<f16>& output, const AttentionOptions& options = {});

void w2_attention_backward(W2Gaussians<const float> q, W2Gaussians<const float> k, W2Streams<const float> v,
                           W2Temperature temperature, const W2Result<float>& result,
                           const W2Gradients<float>& gradients, const AttentionOptions& options = {});
void w2_attention_backward(W2Gaussians<const bf16> q, W2Gaussians<const bf16> k, W2Streams<const bf16> v,
                           W2Temperature temperature, const W2Result<bf16>& result, const W2Gradients<bf16>& gradients,
                           const AttentionOptions& options = {});
void w2_attention_backward(W2Gaussians<const f16> q, W2Gaussians<const f16> k, W2Streams<const f16> v,
                           W2Temperature temperature, const W2Result<f16>& result, const W2Gradients<f16>& gradients,
                           const AttentionOptions& options = {});

}  // namespace phasor
