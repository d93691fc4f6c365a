// Checks of tensors that several functions share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "call.h"
#include "phasor/core/check.h"

namespace phasor::detail {

template <std::size_t Rank>
void check_rows(const char* function, const char* name, const std::array<std::int64_t, Rank>& shape,
                const std::array<std::int64_t, Rank>& strides) {
  PHASOR_CHECK(shape.back() <= 1 || strides.back() == 1, function, name, ": shape ", shape_text(shape),
               " with last stride ", strides.back(), ", expected last stride 1");
}

template <std::size_t Rank>
void check_data(const char* function, const char* name, const void* data, const std::array<std::int64_t, Rank>& shape) {
  const bool empty = std::ranges::any_of(shape, [](std::int64_t size) { return size == 0; });
  PHASOR_CHECK(data != nullptr || empty, function, name, ": shape ", shape_text(shape), " without data, expected data");
}

template <std::size_t Rank>
void check_shape(const char* function, const char* name, const std::array<std::int64_t, Rank>& shape,
                 const std::array<std::int64_t, Rank>& expected, const char* meaning) {
  PHASOR_CHECK(shape == expected, function, name, ": shape ", shape_text(shape), ", expected ", shape_text(expected),
               " = ", meaning);
}

// Each result has its own memory: no stride 0.
template <std::size_t Rank>
void check_distinct(const char* function, const char* name, const std::array<std::int64_t, Rank>& shape,
                    const std::array<std::int64_t, Rank>& strides) {
  for (std::size_t i = 0; i < Rank; i++)
    PHASOR_CHECK(shape[i] <= 1 || strides[i] != 0, function, name, ": stride 0 in dimension ", i, " of shape ",
                 shape_text(shape), ", expected an element of its own for each result");
}

// The memory of a tensor, for checks of overlap.
struct Extent {
  const char* name;
  const std::byte* data;
  std::int64_t element_bytes;
  Shape<4> shape, strides;
};

template <class T, int Rank>
Extent extent(const char* name, const TensorView<T, Rank>& view) {
  Extent result{name, reinterpret_cast<const std::byte*>(view.data), sizeof(T), {1, 1, 1, 1}, {0, 0, 0, 0}};
  std::copy(view.shape.begin(), view.shape.end(), result.shape.begin());
  std::copy(view.strides.begin(), view.strides.end(), result.strides.begin());
  return result;
}
template <class Byte>
Extent extent(const char* name, const AnyTensor<Byte>& view) {
  Extent result{name, view.data, view.element_size(), view.shape, view.strides};
  if (view.pages) result.shape[0] = view.pages->pool, result.shape[2] = view.pages->page_size;
  return result;
}

// The gradient `name` of the option `name + 5`, after "grad_", if it is wanted: shaped as the option, which has `data`.
template <int Rank>
void check_option_gradient(const char* function, const char* name, const TensorView<float, Rank>& gradient,
                           const void* data, const Shape<Rank>& shape, List<Extent>& outputs) {
  if (!gradient.data) return;
  const char* option = name + std::string_view("grad_").size();
  PHASOR_CHECK(data, function, name, ": given without ", option, ", expected both");
  PHASOR_CHECK(gradient.shape == shape, function, name, ": shape ", shape_text(gradient.shape), ", expected ",
               shape_text(shape), " = the shape of ", option);
  check_distinct(function, name, gradient.shape, gradient.strides);
  outputs.push_back(extent(name, gradient));
}

// A list of numbers as a tensor.
inline TensorView<const float, 1> as_tensor(std::span<const float> numbers) {
  return {numbers.data(), {static_cast<std::int64_t>(numbers.size())}};
}

// A result: its shape, and an element of its own for each number.
void check_output(const char* function, const char* name, const AnyOutput& x, const Shape<4>& shape,
                  const char* meaning);

// Throws if an output shares memory with an input or with another output. Slices of one packed tensor, as
// [B, T, 3, H, D], do not.
void check_apart(const char* function, const List<Extent>& outputs, const List<Extent>& inputs);

// What the kernels write, and read besides q, k, v and the options. `more` is other memory of the same call.
void check_forward(const char* function, const AttentionCall& call, const ForwardOutput& output,
                   const List<Extent>& more_outputs = {}, const List<Extent>& more_inputs = {});
void check_backward(const char* function, const AttentionCall& call, const BackwardInput& input,
                    const BackwardOutput& output, const List<Extent>& more_outputs = {},
                    const List<Extent>& more_inputs = {});

}  // namespace phasor::detail
