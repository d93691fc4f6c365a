// Arrays of Python as TensorViews, without a copy: NumPy, torch, and all others that speak DLPack.
//
// NumPy has no bfloat16 of its own: arrays of ml_dtypes.bfloat16 are taken by their bits.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "phasor/core/dtype.h"
#include "phasor/core/tensor.h"
#include "phasor/position/plan.h"

namespace phasor::python {

namespace nb = nanobind;

enum class Access { read, write };

enum class ElementType { float32, float16, bfloat16, float64, boolean, int8, int32, int64, uint64, other };

template <class T>
constexpr ElementType kElementType = ElementType::other;
template <>
inline constexpr ElementType kElementType<float> = ElementType::float32;
template <>
inline constexpr ElementType kElementType<f16> = ElementType::float16;
template <>
inline constexpr ElementType kElementType<bf16> = ElementType::bfloat16;
template <>
inline constexpr ElementType kElementType<bool> = ElementType::boolean;
template <>
inline constexpr ElementType kElementType<std::int8_t> = ElementType::int8;
template <>
inline constexpr ElementType kElementType<std::int32_t> = ElementType::int32;
template <>
inline constexpr ElementType kElementType<std::int64_t> = ElementType::int64;
template <>
inline constexpr ElementType kElementType<std::uint64_t> = ElementType::uint64;

// One argument of a call. Errors name the function and the argument: TypeError for what it is, ValueError for its
// shape and layout. None is an array that is not given.
class Array {
 public:
  static constexpr int kMostDimensions = 6;

  Array(const char* function, const char* name, nb::handle object, Access access = Access::read);

  bool given() const { return given_; }
  ElementType type() const { return type_; }
  const void* data() const { return data_; }
  int rank() const { return rank_; }
  std::int64_t size(int dimension) const { return shape_[static_cast<std::size_t>(dimension)]; }
  std::string shape_text() const;

  // An array of fewer dimensions, but at least `least_rank`, gets leading ones of size 1.
  template <class T, int Rank>
  TensorView<T, Rank> view(int least_rank = Rank) const {
    using Element = std::remove_const_t<T>;
    TensorView<T, Rank> result;
    if (!given_) fail_none();
    if (type_ != kElementType<Element>) fail_type(kElementType<Element>);
    if (rank_ < least_rank || rank_ > Rank) fail_rank(least_rank, Rank);
    if (reinterpret_cast<std::uintptr_t>(data_) % alignof(T) != 0) fail_alignment();
    result.data = static_cast<T*>(data_);
    const auto missing = static_cast<std::size_t>(Rank - rank_);
    for (std::size_t i = 0; i < Rank; i++) {
      result.shape[i] = i < missing ? 1 : shape_[i - missing];
      result.strides[i] = i < missing ? 0 : strides_[i - missing];
    }
    if (!result.has_contiguous_rows()) fail_layout();
    return result;
  }

  // A view without data when the array is not given.
  template <class T, int Rank>
  TensorView<T, Rank> optional_view(int least_rank = Rank) const {
    return given_ ? view<T, Rank>(least_rank) : TensorView<T, Rank>();
  }

  // The numbers of an array [n] of any stride, or of one number.
  template <class T>
  std::vector<std::int64_t> copy() const {
    if (type_ != kElementType<T>) fail_type(kElementType<T>);
    if (rank_ > 1) fail_rank(0, 1);
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < (rank_ == 0 ? 1 : shape_[0]); i++)
      result.push_back(static_cast<const T*>(data_)[i * strides_[0]]);
    return result;
  }

  // f(T()) with T the type of the elements: float, f16 or bf16.
  template <class Function>
  decltype(auto) visit(Function f) const {
    if (type_ == ElementType::float32) return f(float{});
    if (type_ == ElementType::float16) return f(f16{});
    if (type_ != ElementType::bfloat16) fail_not_float();
    return f(bf16{});
  }

  [[noreturn]] void fail_type(ElementType expected) const { fail_type(expected_name(expected)); }
  [[noreturn]] void fail_type(const char* expected) const;
  [[noreturn]] void fail_not_float() const;

 private:
  void take(const nb::dlpack::dltensor& tensor);
  bool take_by_exchange(nb::handle object);
  template <class NdArray>
  bool take_by_dlpack(nb::handle object);
  bool take_bits(nb::handle object, Access access);
  [[noreturn]] void fail_object(nb::handle object, Access access) const;
  [[noreturn]] void fail_none() const;
  static const char* expected_name(ElementType type);
  [[noreturn]] void fail_rank(int least, int most) const;
  [[noreturn]] void fail_layout() const;
  [[noreturn]] void fail_alignment() const;

  const char* function_;
  const char* name_;
  bool given_ = false;
  nb::ndarray<nb::ro> owner_;
  void* data_ = nullptr;
  ElementType type_ = ElementType::other;
  nb::dlpack::dtype dtype_{};
  int rank_ = 0;
  std::array<std::int64_t, kMostDimensions> shape_{}, strides_{};
};

template <class... Parts>
[[noreturn]] void fail_type_error(const char* function, const Parts&... parts) {
  std::ostringstream text;
  text << '[' << function << "] ";
  (text << ... << parts);
  throw nb::type_error(text.str().c_str());
}

std::string text_of(nb::handle object);

// A whole number of 64 bits: an int, or another type that has __index__.
std::int64_t whole_number(const char* function, const char* name, nb::handle object);

// Whole numbers: one, a sequence of them, or an array [n] of int32 or int64. They are copied. None gives none.
std::vector<std::int64_t> integers(const char* function, const char* name, nb::handle object);

Pairing pairing_of(const char* function, nb::handle name);

// An argument of a bound function that Array looks at: None too, since its messages are better than nanobind's.
inline auto array_arg(const char* name) { return nb::arg(name).none(); }

// Memory of a tensor, handed to NumPy.
template <class Scalar, int Rank>
nb::object to_numpy(Tensor<Scalar, Rank> tensor) {
  auto* kept = new Tensor<Scalar, Rank>(std::move(tensor));
  nb::capsule owner(kept, [](void* memory) noexcept { delete static_cast<Tensor<Scalar, Rank>*>(memory); });
  std::array<std::size_t, Rank> shape;
  for (std::size_t i = 0; i < Rank; i++) shape[i] = static_cast<std::size_t>(kept->shape()[i]);
  return nb::cast(nb::ndarray<nb::numpy, Scalar>(kept->data(), Rank, shape.data(), owner));
}
// A copy of a view.
template <class Scalar, int Rank>
nb::object to_numpy(const TensorInput<Scalar, Rank>& view) {
  Tensor<Scalar, Rank> copy(view.shape);
  std::copy_n(view.data, copy.size(), copy.data());
  return to_numpy(std::move(copy));
}
nb::object to_numpy(const std::vector<float>& values);
nb::object to_numpy(const std::vector<double>& values);

}  // namespace phasor::python
