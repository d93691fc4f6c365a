// TensorView<T, Rank>: pointer, shape, strides. The rank is part of the type; `const T` marks an input.
// Tensor<T, Rank>: owns 64-byte aligned memory, contiguous, zero at first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "phasor/core/check.h"
#include "phasor/core/memory.h"

namespace phasor {

template <int Rank>
using Shape = std::array<std::int64_t, static_cast<std::size_t>(Rank)>;

// Number of elements; refuses negative sizes and more elements than memory can address.
template <std::size_t Rank>
std::int64_t element_count(const std::array<std::int64_t, Rank>& shape) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 16;
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    PHASOR_CHECK(size >= 0, "Tensor", "shape: ", shape_text(shape), ", expected no negative size");
    PHASOR_CHECK(size == 0 || count <= kMost / size, "Tensor", "shape: ", shape_text(shape),
                 ", expected fewer elements than memory can address");
    empty = empty || size == 0;
    count *= std::max<std::int64_t>(size, 1);  // strides of an empty tensor must not overflow either
  }
  return empty ? 0 : count;
}

// Strides of row-major memory without gaps.
template <std::size_t Rank>
std::array<std::int64_t, Rank> contiguous_strides(const std::array<std::int64_t, Rank>& shape) {
  std::array<std::int64_t, Rank> strides{};
  std::int64_t step = 1;
  for (std::size_t i = Rank; i-- > 0; step *= std::max<std::int64_t>(shape[i], 1)) strides[i] = step;
  return strides;
}

template <class T, int Rank>
struct TensorView {
  static_assert(Rank >= 1);
  T* data = nullptr;
  Shape<Rank> shape{};
  Shape<Rank> strides{};  // in elements

  TensorView() = default;
  TensorView(T* memory, const Shape<Rank>& sizes) : data(memory), shape(sizes), strides(contiguous_strides(sizes)) {}
  TensorView(T* memory, const Shape<Rank>& sizes, const Shape<Rank>& steps)
      : data(memory), shape(sizes), strides(steps) {}

  // A view of mutable memory is also a view for reading.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>) TensorView(const TensorView<U, Rank>& other)
      : data(other.data), shape(other.shape), strides(other.strides) {}

  std::int64_t size() const { return element_count(shape); }

  template <class... Index>
  requires(sizeof...(Index) == Rank) T& operator()(Index... index) const {
    const Shape<Rank> at{static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < Rank; i++) offset += at[i] * strides[i];
    return data[offset];
  }

  // The view of one index of the first dimension.
  TensorView<T, Rank - 1> operator[](std::int64_t index) const requires(Rank > 1) {
    TensorView<T, Rank - 1> row;
    row.data = data + index * strides[0];
    std::copy(shape.begin() + 1, shape.end(), row.shape.begin());
    std::copy(strides.begin() + 1, strides.end(), row.strides.begin());
    return row;
  }

  // The same memory with two dimensions exchanged: [B, T, H, D] memory seen as [B, H, T, D].
  TensorView transposed(std::size_t a, std::size_t b) const {
    PHASOR_CHECK(a < Rank && b < Rank, "transposed", "dimensions: ", a, " and ", b, ", expected below ", Rank);
    TensorView result = *this;
    std::swap(result.shape[a], result.shape[b]);
    std::swap(result.strides[a], result.strides[b]);
    return result;
  }

  // Indices first .. first + count - 1 of one dimension.
  TensorView slice(std::size_t dimension, std::int64_t first, std::int64_t count) const {
    PHASOR_CHECK(dimension < Rank, "slice", "dimension: ", dimension, ", expected below ", Rank);
    PHASOR_CHECK(first >= 0 && count >= 0 && first <= shape[dimension] - count, "slice", "range: first ", first,
                 ", count ", count, ", expected within size ", shape[dimension]);
    TensorView result = *this;
    result.data += first * strides[dimension];
    result.shape[dimension] = count;
    return result;
  }

  // Kernels walk the last dimension as plain memory.
  bool has_contiguous_rows() const { return shape.back() <= 1 || strides.back() == 1; }
};

template <class T, int Rank>
class Tensor {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Tensor() = default;
  explicit Tensor(const Shape<Rank>& shape) : shape_(shape), size_(element_count(shape)) {
    if (size_ == 0) return;
    memory_ = Memory(static_cast<T*>(allocate_memory(bytes())), Free{bytes()});
    std::fill_n(memory_.get(), size_, T());
  }
  Tensor(const Tensor& other) : Tensor(other.shape_) { std::copy_n(other.memory_.get(), size_, memory_.get()); }
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor other) noexcept {
    swap(other);
    return *this;
  }

  const Shape<Rank>& shape() const { return shape_; }
  std::int64_t size() const { return size_; }
  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  // A view of a temporary would outlive its memory.
  TensorView<T, Rank> view() & { return {data(), shape_}; }
  TensorView<const T, Rank> view() const& { return {data(), shape_}; }
  TensorView<const T, Rank> view() const&& = delete;

  template <class... Index>
  T& operator()(Index... index) {
    return view()(index...);
  }
  template <class... Index>
  const T& operator()(Index... index) const {
    return view()(index...);
  }

 private:
  struct Free {
    std::size_t bytes = 0;
    void operator()(T* memory) const { free_memory(memory, bytes); }
  };
  using Memory = std::unique_ptr<T, Free>;

  std::size_t bytes() const { return static_cast<std::size_t>(size_) * sizeof(T); }
  void swap(Tensor& other) noexcept {
    std::swap(shape_, other.shape_);
    std::swap(size_, other.size_);
    std::swap(memory_, other.memory_);
  }

  Shape<Rank> shape_{};
  std::int64_t size_ = 0;
  Memory memory_;
};

}  // namespace phasor
