// Matrix products of layers, on the micro-kernel of attention. The order in which an element of c is summed depends on
// the shapes alone, never on threads.
//
// Why not a BLAS: Debian's OpenBLAS reached half to two thirds of the FMA peak with AVX-512 where this reaches more
// (docs/performance.md). Its bits depend on its number of threads, and it would be one more library to install.
#pragma once

#include <span>

#include "phasor/core/tensor.h"
#include "phasor/layers/into.h"

namespace phasor::detail {

using phasor::Into;

// c = a b + bias (of each column), or c += a b + bias. a is [M, K], b [K, N], c [M, N]; a and b may be stored by rows
// or by columns (transposed views), c by rows. Memory of c is not that of a or b.
struct MatmulJob {
  TensorView<const float, 2> a, b;
  TensorView<float, 2> c;
  Into into = Into::write;
  const float* bias = nullptr;

  std::int64_t depth() const { return a.shape[1]; }
};

void matmul(TensorView<const float, 2> a, TensorView<const float, 2> b, TensorView<float, 2> c, Into into,
            std::span<const float> bias = {});

// Products that do not depend on each other. With few rows, as in decoding, they share one parallel region.
void matmul(std::span<const MatmulJob> jobs);

}  // namespace phasor::detail
