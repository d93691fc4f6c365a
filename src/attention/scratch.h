#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "phasor/core/tensor.h"

namespace phasor::detail {

// `floats` floats aligned to 64 bytes, of any content. What is given back is kept, within bounds, for the next calls of
// the same thread: a fresh page costs more than the copy that fills it.
float* take_memory(std::size_t floats);
void give_back_memory(float* memory, std::size_t floats) noexcept;

struct GiveBack {
  std::size_t floats = 0;
  void operator()(float* memory) const { give_back_memory(memory, floats); }
};

// Contiguous floats, all written before they are read. A Tensor would be set to zero first, by one thread alone.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(const Shape<4>& shape)
      : memory_(take_memory(static_cast<std::size_t>(element_count(shape))),
                GiveBack{static_cast<std::size_t>(element_count(shape))}),
        view_(memory_.get(), shape) {}

  const TensorView<float, 4>& view() const { return view_; }
  std::int64_t channels() const { return view_.shape[3]; }
  float* row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return view_.data + b * view_.strides[0] + h * view_.strides[1] + i * view_.strides[2];
  }

 private:
  std::unique_ptr<float, GiveBack> memory_;
  TensorView<float, 4> view_;
};

}  // namespace phasor::detail
