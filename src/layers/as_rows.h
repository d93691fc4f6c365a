// [B, T, C] and [B, T, H, D] tensors as rows, for linear layers and norms.
#pragma once

#include "phasor/core/tensor.h"

namespace phasor::detail {

// [B, T, C] as [B * T, C]: sequences follow each other in memory; the stride of rows is free.
template <class T>
TensorView<T, 2> as_rows(const char* layer, const char* name, const TensorView<T, 3>& x) {
  PHASOR_CHECK(
      x.has_contiguous_rows() && (x.shape[0] <= 1 || x.shape[1] == 0 || x.strides[0] == x.shape[1] * x.strides[1]),
      layer, name, ": strides ", shape_text(x.strides),
      ", expected contiguous rows, and sequences one behind the other");
  return {x.data, {x.shape[0] * x.shape[1], x.shape[2]}, {x.strides[1], 1}};
}

// Contiguous [B, T, H, D] as [B * T, H * D], and as [B * T * H, D].
template <class T>
TensorView<T, 2> as_rows(const TensorView<T, 4>& x) {
  return {x.data, {x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]}};
}
template <class T>
TensorView<T, 2> as_head_rows(const TensorView<T, 4>& x) {
  return {x.data, {x.shape[0] * x.shape[1] * x.shape[2], x.shape[3]}};
}

}  // namespace phasor::detail
