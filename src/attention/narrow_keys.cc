#include "narrow_keys.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "narrow_keys.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "products/panel-inl.h"
#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// to[c][j] = rows[j][c]: `count` rows, a multiple of 32, of `channels` channels, a multiple of kSquare. Pairs of rows
// are joined to words first.
void RowsToColumns(const bf16* HWY_RESTRICT rows, size_t count, size_t channels, uint32_t* HWY_RESTRICT words,
                   bf16* HWY_RESTRICT to, size_t stride) {
  for (size_t j = 0; j < count; j += 2)
    ForEachVector(channels, [=](auto d, size_t c) HWY_ATTR {
      const auto even = LoadBits16(d, &rows[j * channels + c].bits),
                 odd = LoadBits16(d, &rows[(j + 1) * channels + c].bits);
      hn::StoreU(hn::Or(even, hn::ShiftLeft<16>(odd)), hn::RebindToUnsigned<decltype(d)>(),
                 words + j / 2 * channels + c);
    });
  for (size_t j = 0; j < count; j += 2 * kLanes)
    TransposeWords(words + j / 2 * channels, channels, channels, reinterpret_cast<uint32_t*>(to + j), stride / 2);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "job.h"
#include "rows.h"
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(RowsToColumns);

namespace {

constexpr std::int64_t kKeysOfATask = 256, kStep = 32, kSquare = 4;

std::int64_t whole(std::int64_t count, std::int64_t step) { return (count + step - 1) / step * step; }

// The room of columns of this many keys, without a stride that shares few cache sets.
std::int64_t column_stride(std::int64_t keys) { return whole(keys, kStep) | kStep; }

bool is_ready(const AnyView& x, bool rotates, NarrowLayout layout) {
  return layout == NarrowLayout::rows && x.type == ElementType::bfloat16 && !x.pages && !rotates &&
         x.shape[3] % 2 == 0 && (x.strides[2] == x.shape[3] || x.shape[2] <= 1);
}

}  // namespace

NarrowSource::NarrowSource(const AnyView& x, const std::optional<RotaryView>& rotation, NarrowLayout layout,
                           std::int64_t readers)
    : x_(x), rotation_(rotation), layout_(layout) {
  if (is_ready(x, rotation.has_value(), layout)) {
    data_ = reinterpret_cast<const bf16*>(x.data);
    std::copy_n(x.strides.begin(), 3, strides_);
    return;
  }
  if (readers <= 1 || element_count(x.shape) == 0) return;
  const std::int64_t stride = stride_of(x.shape[2]), keys = x.shape[2];
  const std::int64_t lines = layout == NarrowLayout::rows ? keys : whole(x.shape[3], kSquare);
  copy_ = Scratch({x.shape[0], x.shape[1], lines, stride / 2});
  bf16* data = reinterpret_cast<bf16*>(copy_.view().data);
  strides_[0] = x.shape[1] * lines * stride, strides_[1] = lines * stride, strides_[2] = stride;
  const std::int64_t blocks = (keys + kKeysOfATask - 1) / kKeysOfATask;
  run_tasks(x.shape[0] * x.shape[1] * blocks, element_count(x.shape), [&](std::int64_t task) {
    const std::int64_t first = task % blocks * kKeysOfATask, head = task / blocks;
    const std::int64_t b = head / x.shape[1], g = head % x.shape[1], count = std::min(kKeysOfATask, keys - first);
    const std::int64_t step = layout == NarrowLayout::rows ? stride : 1;
    copy(b, g, first, count, data + b * strides_[0] + g * strides_[1] + first * step, stride);
  });
  data_ = data;
}

std::int64_t NarrowSource::stride_of(std::int64_t keys) const {
  return layout_ == NarrowLayout::rows ? whole(x_.shape[3], 2) : column_stride(keys);
}

std::int64_t NarrowSource::buffer_size(std::int64_t keys) const {
  return (layout_ == NarrowLayout::rows ? keys : whole(x_.shape[3], kSquare)) * stride_of(keys);
}

NarrowKeys NarrowSource::keys(std::int64_t b, std::int64_t g, std::int64_t first, std::int64_t count,
                              bf16* buffer) const {
  if (data_)
    return {data_ + b * strides_[0] + g * strides_[1] + first * (layout_ == NarrowLayout::rows ? strides_[2] : 1),
            strides_[2]};
  const std::int64_t stride = stride_of(count);
  copy(b, g, first, count, buffer, stride);
  return {buffer, stride};
}

void NarrowSource::copy(std::int64_t b, std::int64_t g, std::int64_t first, std::int64_t count, bf16* to,
                        std::int64_t stride) const {
  if (layout_ == NarrowLayout::rows) return read_narrow_rows(x_, b, g, first, count, rotation_, to, stride);
  const std::int64_t channels = whole(x_.shape[3], kSquare), keys = whole(count, kStep);
  Arena arena;
  bf16* rows = reinterpret_cast<bf16*>(arena.take(static_cast<std::size_t>(keys * channels / 2)));
  auto* words = reinterpret_cast<std::uint32_t*>(arena.take(static_cast<std::size_t>(keys * channels / 2)));
  read_narrow_rows(x_, b, g, first, count, rotation_, rows, channels);
  std::fill_n(rows + count * channels, (keys - count) * channels, bf16());
  PHASOR_DISPATCH(RowsToColumns)
  (rows, static_cast<std::size_t>(keys), static_cast<std::size_t>(channels), words, to,
   static_cast<std::size_t>(stride));
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
