// Memory of a test tensor: rows with unused elements between them and around all of them. Every element is a marked
// NaN until it is written, so a kernel that computes with an unused input, writes to an unused output or leaves out a
// used one is caught.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "phasor/core/dtype.h"
#include "phasor/core/tensor.h"

namespace phasor {

template <class T>
T guard_value();
template <>
inline float guard_value() {
  return std::bit_cast<float>(0x7fd5aa55u);
}
template <>
inline bf16 guard_value() {
  return bf16::from_bits(0x7fd5);
}
template <>
inline f16 guard_value() {
  return f16::from_bits(0x7e5a);
}
template <>
inline bool guard_value() {
  return true;
}

struct Layout {
  bool heads_inside = false;  // dimensions 1 and 2 exchanged: [B, T, H, D] memory, [B, T, H] of log-sum-exps
  std::int64_t gap = 0;       // unused elements after each row
};

template <class T, int Rank>
struct Guarded {
  static constexpr std::int64_t kGuard = 33;  // odd: rows begin at addresses that are not aligned
  Tensor<T, 1> memory;
  TensorView<T, Rank> view;

  Guarded() = default;
  explicit Guarded(const Shape<Rank>& shape, Layout layout = {}) {
    Shape<Rank> in_memory = shape;
    if constexpr (Rank >= 3)
      if (layout.heads_inside) std::swap(in_memory[1], in_memory[2]);
    in_memory.back() += layout.gap;
    memory = Tensor<T, 1>({element_count(in_memory) + 2 * kGuard});
    view = TensorView<T, Rank>(memory.data() + kGuard, in_memory);
    if constexpr (Rank >= 3)
      if (layout.heads_inside) view = view.transposed(1, 2);
    view.shape = shape;
    reset();
  }
  Guarded(Guarded&&) = default;
  Guarded& operator=(Guarded&&) = default;

  void reset() { std::fill(memory.begin(), memory.end(), guard_value<T>()); }

  // Calls function(element) for each element of the view, the last index fastest.
  template <class Function>
  void for_each(const Function& function) const {
    const std::int64_t count = view.size();
    Shape<Rank> at{};
    for (std::int64_t n = 0; n < count; n++) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < Rank; i++) offset += at[i] * view.strides[i];
      function(view.data[offset]);
      for (std::size_t i = Rank; i-- > 0 && ++at[i] == view.shape[i];) at[i] = 0;
    }
  }

  // Elements that belong to no row are as they were.
  void expect_guards(const char* name) const {
    std::vector<bool> used(static_cast<std::size_t>(memory.size()), false);
    for_each([&](const T& element) { used[static_cast<std::size_t>(&element - memory.data())] = true; });
    const T guard = guard_value<T>();
    for (std::size_t i = 0; i < used.size(); i++)
      if (!used[i] && std::memcmp(memory.data() + i, &guard, sizeof guard) != 0) {
        ADD_FAILURE() << name << ": unused element " << static_cast<std::int64_t>(i) - kGuard << " was written";
        return;
      }
  }

  bool same_bits(const Guarded& other) const {
    return memory.size() == other.memory.size() &&
           std::memcmp(memory.data(), other.memory.data(), static_cast<std::size_t>(memory.size()) * sizeof(T)) == 0;
  }
};

}  // namespace phasor
