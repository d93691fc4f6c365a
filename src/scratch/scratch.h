// Memory for the time of a call, kept by its thread for the next calls: in the steady state nothing is allocated, and
// no fresh page is touched, which would cost more than the work done in it. Every owner gives its memory back when its
// scope ends, so owners can be nested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "phasor/core/tensor.h"

namespace phasor::detail {

// `floats` floats aligned to 64 bytes, with undefined content. Memory that is given back is kept, up to a limit, for
// the next calls of the same thread: a fresh page costs more than the copy that fills it.
float* take_memory(std::size_t floats);
void give_back_memory(float* memory, std::size_t floats) noexcept;

struct GiveBack {
  std::size_t floats = 0;
  void operator()(float* memory) const { give_back_memory(memory, floats); }
};

// Buffers of one scope, of undefined content.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // `count` floats, aligned to 64 bytes. One cache line of padding follows, so that buffers with a power-of-two size do
  // not start at the same page offset.
  float* take(std::size_t count) {
    const std::size_t whole = (count + 15) / 16 * 16 + 16;
    if (whole > left_) add_block(whole);
    float* memory = next_;
    next_ += whole, left_ -= whole;
    return memory;
  }

 private:
  struct Block {
    float* memory = nullptr;
    std::size_t floats = 0;
  };
  void add_block(std::size_t least);

  static constexpr std::size_t kMostBlocks = 32;
  Block blocks_[kMostBlocks];
  std::size_t count_ = 0, left_ = 0;
  float* next_ = nullptr;
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

// A vector in such memory: lists of a call (sequences, tasks) need no allocation either.
template <class T>
struct KeptMemory {
  using value_type = T;

  KeptMemory() = default;
  template <class U>
  KeptMemory(const KeptMemory<U>& /*other*/) {}

  T* allocate(std::size_t count) { return reinterpret_cast<T*>(take_memory(floats_of(count))); }
  void deallocate(T* memory, std::size_t count) noexcept {
    give_back_memory(reinterpret_cast<float*>(memory), floats_of(count));
  }
  friend bool operator==(const KeptMemory&, const KeptMemory&) { return true; }

 private:
  static std::size_t floats_of(std::size_t count) { return (count * sizeof(T) + sizeof(float) - 1) / sizeof(float); }
};
template <class T>
using List = std::vector<T, KeptMemory<T>>;

// A tensor in such memory, zero at first.
template <class T, int Rank>
class ScratchZeros {
 public:
  ScratchZeros() = default;
  explicit ScratchZeros(const Shape<Rank>& shape)
      : shape_(shape), values_(static_cast<std::size_t>(element_count(shape))) {}

  const Shape<Rank>& shape() const { return shape_; }
  bool empty() const { return values_.empty(); }
  TensorView<T, Rank> view() { return {values_.data(), shape_}; }
  TensorView<const T, Rank> view() const { return {values_.data(), shape_}; }
  template <class... Index>
  T& operator()(Index... index) {
    return view()(index...);
  }
  template <class... Index>
  const T& operator()(Index... index) const {
    return view()(index...);
  }

 private:
  Shape<Rank> shape_{};
  List<T> values_;
};

}  // namespace phasor::detail
