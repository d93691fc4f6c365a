// Scratch memory of layers. Memory taken within a Scope is free again when the scope ends. After the first step of a
// training loop nothing is allocated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "phasor/core/tensor.h"

namespace phasor {

class Workspace {
 public:
  class Scope {
   public:
    explicit Scope(Workspace& workspace) : workspace_(workspace), block_(workspace.block_), used_(workspace.used_) {}
    ~Scope() { workspace_.return_to(block_, used_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    std::size_t block_;
    std::int64_t used_;
  };

  // Contiguous floats with undefined content, aligned to 64 bytes, valid until the enclosing scope ends.
  template <std::size_t Rank>
  TensorView<float, static_cast<int>(Rank)> take(const std::array<std::int64_t, Rank>& shape) {
    return {take_floats(element_count(shape)), shape};
  }

 private:
  float* take_floats(std::int64_t count);
  void return_to(std::size_t block, std::int64_t used);

  std::vector<Tensor<float, 1>> blocks_;
  std::size_t block_ = 0;  // the one in use, of which `used_` floats are taken
  std::int64_t used_ = 0;
};

// Gives `tensor` this shape. Memory is allocated, as zeros, only if the shape differs.
template <class T, int Rank>
TensorView<T, Rank> shaped(Tensor<T, Rank>& tensor, const Shape<Rank>& shape) {
  if (tensor.shape() != shape) tensor = Tensor<T, Rank>(shape);
  return tensor.view();
}

}  // namespace phasor
