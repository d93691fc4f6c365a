// Keys and values as the kernels read them: rotated float rows. They are used in place if they are that already.
// Otherwise they are copied: once if several blocks of queries read them, block by block if only one does.
#pragma once

#include <cstdint>
#include <optional>

#include "call.h"
#include "scratch/scratch.h"

namespace phasor::detail {

struct FloatRows {
  const float* data = nullptr;
  std::int64_t stride = 0;
};

class KeySource {
 public:
  // `readers`: how many blocks of queries will read each row.
  KeySource(const AnyView& x, const std::optional<RotaryView>& rotation, std::int64_t readers);

  // Rows first .. first + count - 1 of key head g in batch b; `buffer` has room for count * buffer_stride() floats and
  // is used only when needs_buffer().
  FloatRows rows(std::int64_t b, std::int64_t g, std::int64_t first, std::int64_t count, float* buffer) const;

  // What rows() reads.
  AnyView source() const { return floats_.data ? AnyView(floats_) : x_; }
  bool needs_buffer() const { return floats_.data == nullptr; }
  std::int64_t buffer_stride() const { return x_.shape[3]; }

 private:
  AnyView x_;
  std::optional<RotaryView> rotation_;
  Scratch copy_;
  TensorView<const float, 4> floats_;  // x itself or the copy; without data: neither
};

}  // namespace phasor::detail
