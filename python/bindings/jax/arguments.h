// The arguments of a call from XLA, by name. The attributes `operands` and `results` list the names of both, since
// which there are depends on the options.
//
// Under vmap, XLA's arguments have leading dimensions: as many as functions are nested, of the mapped size, or of 1
// where all elements share the argument (jax.ffi's vmap_method "expand_dims"). Results have all of them. A call then
// runs once for each element, or once for all: with the leading dimensions folded into the batch.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/core/check.h"
#include "phasor/core/dtype.h"
#include "phasor/core/tensor.h"
#include "xla_ffi.h"

namespace phasor::jax {

template <class T>
constexpr xla::DataType kDataType = xla::DataType::float32;
template <>
inline constexpr xla::DataType kDataType<bool> = xla::DataType::boolean;
template <>
inline constexpr xla::DataType kDataType<std::int32_t> = xla::DataType::int32;
template <>
inline constexpr xla::DataType kDataType<std::uint32_t> = xla::DataType::uint32;
template <>
inline constexpr xla::DataType kDataType<f16> = xla::DataType::float16;
template <>
inline constexpr xla::DataType kDataType<bf16> = xla::DataType::bfloat16;

class Arguments {
 public:
  // queries: the operand of four dimensions that the number of leading ones is told by.
  Arguments(const char* function, const xla::Call& call, std::string_view queries);

  const char* function() const { return function_; }
  const xla::Buffer* operand(std::string_view name) const { return find(operand_names_, call_.arguments, name); }
  const xla::Buffer* result(std::string_view name) const { return find(result_names_, call_.results, name); }
  const xla::Buffer& required(std::string_view name) const;
  const xla::Buffer& queries() const { return *queries_; }

  // An attribute, or nothing.
  std::optional<std::string_view> text(std::string_view name) const;
  template <class T>
  std::optional<T> number(std::string_view name) const {
    const void* value = scalar(name, std::is_same_v<T, bool>     ? xla::DataType::boolean
                                     : std::is_same_v<T, double> ? xla::DataType::float64
                                                                 : xla::DataType::int64);
    return value ? std::optional<T>(*static_cast<const T*>(value)) : std::nullopt;
  }

  std::int64_t leading() const { return leading_; }    // dimensions
  std::int64_t elements() const { return elements_; }  // of all leading dimensions
  std::int64_t batch() const { return queries_->shape[leading_]; }
  const std::vector<std::int64_t>& mapped_shape() const { return mapped_; }

 private:
  static std::vector<std::string_view> split(std::string_view names);
  static const xla::Buffer* find(const std::vector<std::string_view>& names, const xla::Buffers& buffers,
                                 std::string_view name);
  const void* attribute(std::string_view name, xla::AttributeType type) const;
  const void* scalar(std::string_view name, xla::DataType type) const;
  void find_leading_dimensions();

  const char* function_;
  const xla::Call& call_;
  std::vector<std::string_view> operand_names_, result_names_;
  const xla::Buffer* queries_ = nullptr;
  std::int64_t leading_ = 0, elements_ = 1;
  std::vector<std::int64_t> mapped_;
};

// Views of the arguments for one element of the mapped ones, or for all of them as one batch.
class Place {
 public:
  static constexpr std::int64_t kFolded = -1;
  Place(const Arguments& arguments, std::int64_t element) : arguments_(arguments), element_(element) {}

  // False as soon as an argument was asked for that cannot be part of one batch.
  bool possible() const { return possible_; }
  void refuse_folding() { possible_ = possible_ && !folded(); }
  bool folded() const { return element_ == kFolded; }

  // A tensor whose first dimension is the batch, or 1 where sequences share it. own_rows: each sequence must have its
  // own, also where elements share the argument: so it is with q, k, v, and what has a gradient.
  template <class T, int Rank>
  TensorView<T, Rank> batched(const xla::Buffer& buffer, bool own_rows = true) {
    TensorView<T, Rank> view = first<T, Rank>(buffer);
    if (!folded()) return at_element(view, buffer);
    const std::int64_t elements = arguments_.elements(), batch = arguments_.batch(), own = count(buffer);
    if (own == elements) {
      possible_ = possible_ && view.shape[0] == batch;
      view.shape[0] *= elements;
      return view;
    }
    possible_ = possible_ && own == 1 && view.shape[0] == 1 && (batch == 1 || !own_rows);
    if (own_rows) {  // each sequence reads the one
      view.shape[0] = elements;
      view.strides[0] = 0;
    }
    return view;
  }

  // A tensor that all sequences share.
  template <class T, int Rank>
  TensorView<T, Rank> shared(const xla::Buffer& buffer) {
    const TensorView<T, Rank> view = first<T, Rank>(buffer);
    if (!folded()) return at_element(view, buffer);
    if (count(buffer) != 1) possible_ = false;
    return view;
  }

  // Whole numbers [1] or [B], one for all sequences or one for each.
  std::vector<std::int64_t> integers(const char* name, const xla::Buffer& buffer);

 private:
  // The view of the first element.
  template <class T, int Rank>
  TensorView<T, Rank> first(const xla::Buffer& buffer) const {
    check(buffer, kDataType<std::remove_const_t<T>>, Rank);
    Shape<Rank> shape{};
    std::copy_n(buffer.shape + arguments_.leading(), Rank, shape.begin());
    return {static_cast<T*>(memory(buffer)), shape};
  }
  template <class T, int Rank>
  TensorView<T, Rank> at_element(TensorView<T, Rank> view, const xla::Buffer& buffer) const {
    view.data += index(buffer, element_) * view.size();
    return view;
  }
  // How many elements the argument has, and which of them belongs to a mapped one.
  std::int64_t count(const xla::Buffer& buffer) const;
  std::int64_t index(const xla::Buffer& buffer, std::int64_t element) const;
  void check(const xla::Buffer& buffer, xla::DataType type, std::int64_t rank) const;
  // XLA has no address for a buffer without elements; to the library such a tensor would not be given.
  static void* memory(const xla::Buffer& buffer);

  const Arguments& arguments_;
  std::int64_t element_;
  bool possible_ = true;
};

}  // namespace phasor::jax
