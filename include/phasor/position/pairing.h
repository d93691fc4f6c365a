// Moving a model between pairings. A half-split rotation of permuted channels is the adjacent rotation of the original
// ones, so permuting the rows of the q and k projections (and their biases, and per-head q/k norms) converts a model; v
// and the output projection stay as they are.
#pragma once

#include <cstdint>
#include <vector>

#include "phasor/core/check.h"
#include "phasor/core/tensor.h"
#include "phasor/position/plan.h"

namespace phasor {

// Channel c of a converted head is channel permutation[c] of the original one. Only the first rotary_dim channels move
// (0: all of them).
std::vector<std::int64_t> pairing_permutation(Pairing to, std::int64_t head_dim, std::int64_t rotary_dim = 0);

// The rows [heads * head_dim, ...] of a projection from the other pairing, in pairing `to`. Rank 2: a weight; rank 1: a
// bias, or with heads = 1 the weight of a per-head norm.
template <class T, int Rank>
requires(Rank == 1 || Rank == 2) Tensor<T, Rank> convert_pairing(TensorView<const T, Rank> rows, std::int64_t heads,
                                                                 Pairing to, std::int64_t rotary_dim = 0) {
  PHASOR_CHECK(heads >= 1 && rows.shape[0] % heads == 0, "convert_pairing", "rows: shape ", shape_text(rows.shape),
               ", expected the first size to be a multiple of heads ", heads);
  const std::int64_t head_dim = rows.shape[0] / heads;
  const std::vector<std::int64_t> permutation = pairing_permutation(to, head_dim, rotary_dim);
  Tensor<T, Rank> result(rows.shape);
  for (std::int64_t row = 0; row < rows.shape[0]; row++) {
    const std::int64_t from = row / head_dim * head_dim + permutation[static_cast<std::size_t>(row % head_dim)];
    if constexpr (Rank == 1) {
      result(row) = rows(from);
    } else {
      for (std::int64_t c = 0; c < rows.shape[1]; c++) result(row, c) = rows(from, c);
    }
  }
  return result;
}
template <class T, int Rank>
Tensor<T, Rank> convert_pairing(const Tensor<T, Rank>& rows, std::int64_t heads, Pairing to,
                                std::int64_t rotary_dim = 0) {
  return convert_pairing(rows.view(), heads, to, rotary_dim);
}

}  // namespace phasor
