#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "phasor/core/tensor.h"

namespace phasor::detail {

// Contiguous floats, all written before they are read. A Tensor would be set to zero first, by one thread alone.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(const Shape<4>& shape)
      : memory_(static_cast<float*>(
            ::operator new(static_cast<std::size_t>(element_count(shape)) * sizeof(float), kAlignment))),
        view_(memory_.get(), shape) {}

  const TensorView<float, 4>& view() const { return view_; }
  std::int64_t channels() const { return view_.shape[3]; }
  float* row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return view_.data + b * view_.strides[0] + h * view_.strides[1] + i * view_.strides[2];
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<float, Free> memory_;
  TensorView<float, 4> view_;
};

}  // namespace phasor::detail
