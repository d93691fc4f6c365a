// Products of whole matrices, on all threads. The order in which an element of c is summed depends on the shapes alone,
// never on threads.
//
// Why not a BLAS: Debian's OpenBLAS reached half to two thirds of the FMA peak with AVX-512 where this reaches more
// (docs/performance.md). Its bits depend on its number of threads, and it would be one more library to install.
#pragma once

#include <cstdint>
#include <span>

#include "phasor/core/tensor.h"

namespace phasor::products {

// A matrix that is read, stored by rows or by columns (a transposed view). Only kernels (kernels.h) depend on its
// element type; how a product is split into tasks depends on its shape and strides.
using Operand = TensorView<const float, 2>;

// c = a b + bias, or c += a b + bias. a is [M, K], b [K, N], c [M, N] with contiguous rows; the bias has an element for
// each column of c, or none. Sums, bias and c are float. The memory of c is not that of a or b.
struct Product {
  Operand a, b;
  TensorView<float, 2> c;
  bool accumulate = false;  // add to c
  std::span<const float> bias = {};

  std::int64_t rows() const { return c.shape[0]; }
  std::int64_t columns() const { return c.shape[1]; }
  std::int64_t depth() const { return a.shape[1]; }
  std::int64_t multiplications() const { return rows() * columns() * depth(); }
};

void multiply(const Product& product);

// Products that do not depend on each other. With few rows, as in decoding, they share one parallel region.
void multiply(std::span<const Product> products);

}  // namespace phasor::products
