#include "keys.h"

#include <algorithm>

#include "job.h"
#include "rows.h"

namespace phasor::detail {
namespace {

constexpr std::int64_t kRowsOfATask = 256;

// Rows without gaps: with a power-of-two stride they would share a few cache sets.
bool is_ready(const AnyView& x, bool rotates) {
  return x.type == ElementType::float32 && !x.pages && !rotates && (x.strides[2] == x.shape[3] || x.shape[2] <= 1);
}

}  // namespace

KeySource::KeySource(const AnyView& x, const std::optional<RotaryView>& rotation, std::int64_t readers)
    : x_(x), rotation_(rotation) {
  if (is_ready(x, rotation.has_value())) {
    floats_ = x.as<const float>();
    return;
  }
  if (readers <= 1) return;
  copy_ = Scratch(x.shape);
  const std::int64_t blocks = (x.shape[2] + kRowsOfATask - 1) / kRowsOfATask;
  run_tasks(x.shape[0] * x.shape[1] * blocks, element_count(x.shape), [&](std::int64_t task) {
    const std::int64_t first = task % blocks * kRowsOfATask, head = task / blocks;
    const std::int64_t b = head / x.shape[1], g = head % x.shape[1];
    read_rows(x, b, g, first, std::min(kRowsOfATask, x.shape[2] - first), rotation, copy_.row(b, g, first), x.shape[3]);
  });
  floats_ = copy_.view();
}

FloatRows KeySource::rows(std::int64_t b, std::int64_t g, std::int64_t first, std::int64_t count, float* buffer) const {
  if (floats_.data)
    return {floats_.data + b * floats_.strides[0] + g * floats_.strides[1] + first * floats_.strides[2],
            floats_.strides[2]};
  read_rows(x_, b, g, first, count, rotation_, buffer, buffer_stride());
  return {buffer, buffer_stride()};
}

}  // namespace phasor::detail
