// Products of whole matrices, on all threads. The order in which an element of c is summed depends on the shapes alone,
// never on threads.
//
// Why not a BLAS: Debian's OpenBLAS reached half to two thirds of the FMA peak with AVX-512 where this reaches more
// (docs/performance.md). Its bits depend on its number of threads, and it would be one more library to install.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "phasor/core/dtype.h"
#include "phasor/core/precision.h"
#include "phasor/core/tensor.h"

namespace phasor::products {

// A matrix that is read, stored by rows or by columns (a transposed view). Only kernels (kernels.h) depend on its
// element type; how a product is split into tasks depends on its shape and strides.
struct Operand {
  const void* data = nullptr;
  Shape<2> shape{}, strides{};
  bool is_bf16 = false, is_f16 = false;

  Operand() = default;
  template <class T>
  Operand(const TensorView<T, 2>& view)
      : data(view.data),
        shape(view.shape),
        strides(view.strides),
        is_bf16(std::is_same_v<const T, const bf16>),
        is_f16(std::is_same_v<const T, const f16>) {
    static_assert(Element<std::remove_const_t<T>>);
  }

  Operand transposed() const {
    Operand result = *this;
    std::swap(result.shape[0], result.shape[1]);
    std::swap(result.strides[0], result.strides[1]);
    return result;
  }

  // With T the type of its elements.
  template <class T>
  TensorView<const T, 2> view() const {
    return {static_cast<const T*>(data), shape, strides};
  }
  // Calls use(view) with the view of its type.
  template <class Use>
  auto visit(const Use& use) const {
    return is_bf16 ? use(view<bf16>()) : is_f16 ? use(view<f16>()) : use(view<float>());
  }
};

// c = a b + bias, or c += a b + bias. a is [M, K], b [K, N], c [M, N] with contiguous rows; a is of float or bf16, b
// also of f16, which is widened whatever the precision. The bias has an element for each column of c, or none. Sums,
// bias and c are float. The memory of c is not that of a or b.
struct Product {
  Operand a, b;
  TensorView<float, 2> c;
  bool accumulate = false;  // add to c
  std::span<const float> bias = {};
  // By storage, b decides, as weights do: with a b of bf16, a is rounded to bf16 where the CPU multiplies bf16, unless
  // there are few rows.
  Precision precision = default_precision();

  std::int64_t rows() const { return c.shape[0]; }
  std::int64_t columns() const { return c.shape[1]; }
  std::int64_t depth() const { return a.shape[1]; }
  std::int64_t multiplications() const { return rows() * columns() * depth(); }
};

void multiply(const Product& product);

// Products that do not depend on each other. With few rows, as in decoding, they share one parallel region.
void multiply(std::span<const Product> products);

}  // namespace phasor::products
