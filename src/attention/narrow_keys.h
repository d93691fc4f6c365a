// Keys and values in bf16, as products of pairs read them (products/pairs.h): by rows [key][channel] or by columns
// [channel][key]. Rows that are so already are used in place. Others are rotated, rounded and copied: once if several
// blocks of queries read them, block by block if only one does.
#pragma once

#include <cstdint>
#include <optional>

#include "call.h"
#include "scratch/scratch.h"

namespace phasor::detail {

// Rows, or columns, are `stride` apart. A row of an odd number of channels ends with a 0.
struct NarrowKeys {
  const bf16* data = nullptr;
  std::int64_t stride = 0;
};

enum class NarrowLayout { rows, columns };

class NarrowSource {
 public:
  // `readers`: how many blocks of queries will read each key.
  NarrowSource(const AnyView& x, const std::optional<RotaryView>& rotation, NarrowLayout layout, std::int64_t readers);

  // From key `first` of key head g in batch b on. `buffer` has room for buffer_size() elements; it is used for `count`
  // keys, and only when needs_buffer().
  NarrowKeys keys(std::int64_t b, std::int64_t g, std::int64_t first, std::int64_t count, bf16* buffer) const;

  bool needs_buffer() const { return data_ == nullptr; }
  // For up to `keys` keys.
  std::int64_t buffer_size(std::int64_t keys) const;

 private:
  std::int64_t stride_of(std::int64_t keys) const;
  void copy(std::int64_t b, std::int64_t g, std::int64_t first, std::int64_t count, bf16* to,
            std::int64_t stride) const;

  AnyView x_;
  std::optional<RotaryView> rotation_;
  NarrowLayout layout_;
  Scratch copy_;
  const bf16* data_ = nullptr;  // x itself or the copy; without: neither
  std::int64_t strides_[3] = {};
};

}  // namespace phasor::detail
