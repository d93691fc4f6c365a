// Attention: out = softmax(scores) v, forward and backward, in memory that grows with S, never with S x S.
//
//   score(i, j) = cap(scale * query_scale(i) * rotate(q_i) . rotate(k_j)) + key_bias(j) + bias(j - p_i) + mask(i, j)
//
// in this order: scale, softcap, biases, masks, softmax. Tensors are q [B, H, T, D], k [B, G, S, D], v [B, G, S, E]
// and out [B, H, T, E]; H is a multiple of G (grouped queries: head h reads key head h / (H / G)); D and E are 1 to
// 512. Outer strides are free, so [B, T, H, D] memory works through transposed(1, 2). Elements are float, bf16 or
// f16; sums and the softmax are float, and products multiply what `precision` says.
//
// Results are the same bits for any number of threads. A query that sees no key gives 0, with log-sum-exp -infinity.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "phasor/attention/block_mask.h"
#include "phasor/core/dtype.h"
#include "phasor/core/input.h"
#include "phasor/core/precision.h"
#include "phasor/core/tensor.h"
#include "phasor/position/plan.h"

namespace phasor {

// A query at p sees the keys p - left < j < p + right. One number counts keys to the left, the query's own included, as
// Hugging Face's sliding_window: Window(256). A pair bounds both sides: Window(256, 256).
struct Window {
  static constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();
  std::int64_t left = kUnbounded, right = kUnbounded;

  constexpr Window() = default;
  constexpr Window(std::int64_t to_the_left, std::int64_t to_the_right = kUnbounded)
      : left(to_the_left), right(to_the_right) {}
};

// A mask [B or 1, H or 1, T or 1, S or 1]. Of bool: true where the query may see the key. Of float: a number added to
// the score. It borrows or owns as a TensorInput.
struct MaskInput {
  TensorInput<bool, 4> visible{};
  TensorInput<float, 4> added{};

  MaskInput() = default;
  template <class Mask>
  requires std::is_constructible_v<TensorInput<bool, 4>, Mask> MaskInput(Mask&& mask)
      : visible(std::forward<Mask>(mask)) {}
  template <class Mask>
  requires std::is_constructible_v<TensorInput<float, 4>, Mask> MaskInput(Mask&& mask)
      : added(std::forward<Mask>(mask)) {}
};

// Everything is optional. Tensors, tables and lists borrow what has a name and own what has none (core/input.h); a
// tensor without data is absent.
struct AttentionOptions {
  std::optional<double> scale{};        // 1/sqrt(D) when not given
  TensorInput<float, 3> query_scale{};  // [B or 1, H or 1, T]: one more factor of q_i . k_j, for each query

  // Positions of queries: query i of sequence b is at p = query_offsets[b] + i. One number for all sequences, one for
  // each, or none: then S - T, so that the last query is at the position of the last key.
  SpanInput<std::int64_t> query_offsets{};
  bool causal = false;  // a query at p sees the keys j <= p
  Window window{};
  SpanInput<std::int64_t> key_lengths{};  // for each sequence, how many of its keys count; changes no position

  // Ragged batches: B = 1, and sequence s has the queries query_starts[s] .. query_starts[s + 1] - 1 and the keys
  // key_starts[s] .. key_starts[s + 1] - 1 (cumulative lengths, one more than there are sequences). Offsets, lengths,
  // causal and window then apply within each sequence.
  SpanInput<std::int64_t> query_starts{}, key_starts{};

  MaskInput mask{};
  std::optional<BlockMask> block_mask{};             // skips blocks of pairs that it hides
  TensorInput<float, 3> key_bias{};                  // [B or 1, H or G or 1, S], added to the score
  std::optional<RelativeBiasView> relative_bias{};   // [H, span] by distance j - p, added: T5, learned relative
  SpanInput<float> alibi_slopes{};                   // [H]: adds -slope |j - p|; alibi_slopes(H) are ALiBi's own
  std::optional<RotaryView> q_rotary{}, k_rotary{};  // rows are tokens: row i rotates q_i, row j rotates k_j
  double softcap = 0.0;                              // c > 0: scores become c tanh(score / c)
  SpanInput<float> sinks{};                          // [H]: one more score in each softmax, with value 0

  // Each weight is dropped with probability `dropout`, in [0, 1); the others are multiplied by 1 / (1 - dropout).
  // Whether weight (b, h, i, j) is dropped depends only on the seed and these four numbers, so the backward pass drops
  // the same ones.
  double dropout = 0.0;
  std::uint64_t seed = 0;

  std::optional<Precision> precision{};  // of products; default_precision() when not given
};

// What attention writes. Only `out` is required.
template <Element T>
struct AttentionOutput {
  TensorView<T, 4> out{};      // [B, H, T, E]
  TensorView<float, 3> lse{};  // [B, H, T]: log of the sum of exp(score), the sink included
  // [B, H, T, 2], for the backward pass: the largest score m and the sum s of 2^(score - m), of scores in base 2. So
  // lse = ln(2) (m + log2(s)); as one float, a large lse would lose digits of the weights.
  TensorView<float, 4> softmax{};
  TensorView<float, 4> weights{};  // [B, H, T, S]: softmax(scores), after dropout
};

// What the backward pass reads besides q, k and v: results of the forward pass, and the gradient of the loss by them.
template <Element T>
struct AttentionBackwardInput {
  TensorView<const T, 4> out{};
  TensorView<const float, 4> softmax{};
  TensorView<const T, 4> grad_out{};
  TensorView<const float, 3> grad_lse{};  // optional
};

// The gradient of a rotation's table, shaped as it is: summed over the sequences and heads that share a number.
struct RotaryGradient {
  TensorView<float, 4> cos{}, sin{};
  bool is_wanted() const { return cos.data != nullptr || sin.data != nullptr; }
};

// Gradients of the loss. They overwrite what was there. Those without data are not computed; q, k and v are required.
template <Element T>
struct AttentionGradients {
  TensorView<T, 4> q{}, k{}, v{};
  RotaryGradient q_rotary{}, k_rotary{};  // shaped as the tables, [B or 1, H or 1, T, R/2]
  TensorView<float, 3> query_scale{};     // shaped as options.query_scale
  TensorView<float, 4> mask{};            // shaped as options.mask, of float: summed over its broadcast dimensions
  TensorView<float, 3> key_bias{};        // shaped as options.key_bias
  TensorView<float, 2> relative_bias{};   // [H, span]
  TensorView<float, 1> alibi_slopes{};    // [H]
  TensorView<float, 1> sinks{};           // [H]
};

namespace detail {

template <Element T>
void attention_forward(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
                       const TensorView<const T, 4>& v, const AttentionOutput<T>& output,
                       const AttentionOptions& options);
template <Element T>
void attention_backward(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
                        const TensorView<const T, 4>& v, const AttentionBackwardInput<T>& input,
                        const AttentionGradients<T>& gradients, const AttentionOptions& options);

}  // namespace detail

// Throws what attention_forward throws for these shapes and options, and computes nothing: for programs that are built
// before they run. Elements of q, k and v are not read, so those of other types may be given as float.
void check_attention(const TensorView<const float, 4>& q, const TensorView<const float, 4>& k,
                     const TensorView<const float, 4>& v, const AttentionOptions& options = {});

// T, the element type of all tensors, is that of q: float, bf16 or f16.
template <class U, Element T = std::remove_const_t<U>>
void attention_forward(TensorView<U, 4> q, std::type_identity_t<TensorView<const T, 4>> k,
                       std::type_identity_t<TensorView<const T, 4>> v,
                       const std::type_identity_t<AttentionOutput<T>>& output, const AttentionOptions& options = {}) {
  detail::attention_forward<T>(q, k, v, output, options);
}

// The options must be those of the forward pass.
template <class U, Element T = std::remove_const_t<U>>
void attention_backward(TensorView<U, 4> q, std::type_identity_t<TensorView<const T, 4>> k,
                        std::type_identity_t<TensorView<const T, 4>> v,
                        const std::type_identity_t<AttentionBackwardInput<T>>& input,
                        const std::type_identity_t<AttentionGradients<T>>& gradients,
                        const AttentionOptions& options = {}) {
  detail::attention_backward<T>(q, k, v, input, gradients, options);
}

}  // namespace phasor
