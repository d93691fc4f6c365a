// One call of attention, checked and with defaults filled in: the input of all kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "pages.h"
#include "phasor/attention/attention.h"
#include "scratch/scratch.h"

namespace phasor::detail {

// int8: keys and values of a cache, with a scale for each row.
enum class ElementType { float32, bfloat16, float16, int8 };

template <class T>
constexpr ElementType element_type = std::is_same_v<T, float>  ? ElementType::float32
                                     : std::is_same_v<T, bf16> ? ElementType::bfloat16
                                     : std::is_same_v<T, f16>  ? ElementType::float16
                                                               : ElementType::int8;

// A tensor whose element type is known only at run time, so that kernels are written once. Byte: std::byte or const.
template <class Byte>
struct AnyTensor {
  Byte* data = nullptr;
  ElementType type = ElementType::float32;
  Shape<4> shape{}, strides{};
  TensorView<std::conditional_t<std::is_const_v<Byte>, const float, float>, 3> scales{};  // of int8 rows
  const PageTable* pages = nullptr;  // of keys and values in pages: strides[0] is then the step from page to page

  AnyTensor() = default;
  template <class T>
  AnyTensor(const TensorView<T, 4>& view)
      : data(reinterpret_cast<Byte*>(view.data)),
        type(element_type<std::remove_const_t<T>>),
        shape(view.shape),
        strides(view.strides) {}
  template <class T>
  TensorView<T, 4> as() const {
    return {reinterpret_cast<T*>(data), shape, strides};
  }
  explicit operator bool() const { return data != nullptr; }
  std::int64_t element_size() const { return type == ElementType::float32 ? 4 : type == ElementType::int8 ? 1 : 2; }

  // Calls body(outer, row, at, n) for runs of the rows first .. first + count - 1 of batch b: row first + at is row
  // `row` of the outermost index `outer`. All rows are one run unless they are in pages.
  template <class Body>
  void for_places(std::int64_t b, std::int64_t first, std::int64_t count, const Body& body) const {
    if (!pages) return body(b, first, std::int64_t{0}, count);
    pages->for_pages(b, first, count, body);
  }

  // Calls body(offset, at, n) for the same runs in head h, with rows strides[2] apart: row first + at is at `offset`,
  // in elements.
  template <class Body>
  void for_runs(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count, const Body& body) const {
    for_places(b, first, count, [&](std::int64_t outer, std::int64_t row, std::int64_t at, std::int64_t n) {
      body(outer * strides[0] + h * strides[1] + row * strides[2], at, n);
    });
  }

  // The same with the scale of row first + at; those of the run follow it.
  template <class Body>
  void for_scaled_runs(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count, const Body& body) const {
    for_places(b, first, count, [&](std::int64_t outer, std::int64_t row, std::int64_t at, std::int64_t n) {
      body(outer * strides[0] + h * strides[1] + row * strides[2],
           scales.data + outer * scales.strides[0] + h * scales.strides[1] + row, at, n);
    });
  }
};
using AnyView = AnyTensor<const std::byte>;
using AnyOutput = AnyTensor<std::byte>;

// Queries and keys of one sequence. Positions and keys count from the sequence's first key.
struct Sequence {
  std::int64_t batch = 0;
  std::int64_t first_query = 0, queries = 0;
  std::int64_t first_key = 0, keys = 0;  // those within key_lengths
  std::int64_t offset = 0;               // the position of the first query
};

// Names of tensors in errors.
struct TensorNames {
  const char *q = "q", *k = "k", *v = "v", *out = "out", *grad_out = "grad_out";
  const char *grad_q = "grad_q", *grad_k = "grad_k", *grad_v = "grad_v";
};

struct AttentionCall {
  AnyView q, k, v;
  TensorNames names;
  // W2, forward only: log_sigma of q, whose sigma are more channels after the first ones, and what is then subtracted
  // from both, [B, G, 1, D].
  std::optional<AnyView> second_q;
  TensorView<const float, 4> middle;
  std::optional<AnyView> second_v;  // more values with the same weights, shaped as v: used by W2, forward only
  std::int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0;
  std::int64_t channels = 0, value_channels = 0;  // D, E
  double scale = 1.0;
  bool is_narrow = false;            // products multiply bf16
  ScratchZeros<float, 3> key_bias;   // options.key_bias as the kernels read it
  std::int64_t left = 0, right = 0;  // a query at p sees p - left < j < p + right; causal is right = 1
  List<Sequence> sequences;
  AttentionOptions options;

  std::int64_t group() const { return heads / key_heads; }
  // The keys of a sequence that queries at positions first .. last see, at least one of them or all of them.
  std::int64_t first_seen(std::int64_t position) const { return std::max<std::int64_t>(0, position - left + 1); }
  std::int64_t end_seen(const Sequence& s, std::int64_t position) const { return std::min(s.keys, position + right); }
};

// Rows first .. first + count - 1 of one head of one sequence.
struct QueryBlock {
  const Sequence* sequence = nullptr;
  std::int64_t head = 0, first = 0, count = 0;

  // The position of its first query among the keys of the sequence.
  std::int64_t position() const { return sequence->offset + first - sequence->first_query; }
};

// Checks q, k, v and the options; throws naming `function`.
AttentionCall make_call(const char* function, const AnyView& q, const AnyView& k, const AnyView& v,
                        const AttentionOptions& options, const TensorNames& names = {});

struct ForwardOutput {
  AnyOutput out;
  TensorView<float, 3> lse;
  TensorView<float, 4> softmax;
  TensorView<float, 4> weights;
  AnyOutput second_out{};  // of second_v
};

struct BackwardInput {
  AnyView out;
  TensorView<const float, 4> softmax;
  AnyView grad_out;
  TensorView<const float, 3> grad_lse;
};

struct BackwardOutput {
  AnyOutput q{}, k{}, v{};
  RotaryGradient q_rotary{}, k_rotary{};
  TensorView<float, 3> query_scale{};
  TensorView<float, 4> mask{};
  TensorView<float, 3> key_bias{};
  TensorView<float, 2> relative_bias{};
  TensorView<float, 1> alibi_slopes{};
  TensorView<float, 1> sinks{};
};

// Those of options: of AttentionGradients or W2Gradients.
template <class Gradients>
BackwardOutput option_gradients(const Gradients& gradients) {
  return {.q_rotary = gradients.q_rotary,
          .k_rotary = gradients.k_rotary,
          .query_scale = gradients.query_scale,
          .mask = gradients.mask,
          .key_bias = gradients.key_bias,
          .relative_bias = gradients.relative_bias,
          .alibi_slopes = gradients.alibi_slopes,
          .sinks = gradients.sinks};
}

// The largest factor that scores may be multiplied by. With it, scores of ordinary numbers stay far from the largest
// float, 3.4e38, so that no infinity minus infinity gives NaN.
constexpr double kLargestFactor = 1e30;

// The kernels behind the public functions.
void forward(const AttentionCall& call, const ForwardOutput& output);
void backward(const AttentionCall& call, const BackwardInput& input, const BackwardOutput& output);

}  // namespace phasor::detail
