#include "quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantize.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Beside it floats are whole numbers, so that a sum is rounded to one, ties to even. Highway's own rounding to integers
// differs between targets (1.0.3: 0.49999997 gives 1 in SCALAR).
constexpr float kWhole = 0x1.8p23f;

void Quantize(const float* HWY_RESTRICT row, float scale, int8_t* HWY_RESTRICT numbers, size_t count) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const hn::Rebind<int8_t, decltype(d)> d8;
    const hn::RebindToSigned<decltype(d)> d32;
    const auto ratio = hn::Div(hn::LoadU(d, row + i), hn::Set(d, scale));
    const auto kept = hn::Clamp(ratio, hn::Set(d, -127.0f), hn::Set(d, 127.0f));  // a tiny scale has few digits
    const auto whole = hn::Sub(hn::Add(kept, hn::Set(d, kWhole)), hn::Set(d, kWhole));
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(d32, whole)), d8, numbers + i);
  });
}

void Dequantize(const int8_t* HWY_RESTRICT numbers, float scale, float* HWY_RESTRICT row, size_t count) {
  ForEachVector(count, [=](auto d, size_t i)
                           HWY_ATTR { hn::StoreU(hn::Mul(hn::Set(d, scale), LoadFloat(d, numbers + i)), d, row + i); });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(Quantize);
HWY_EXPORT(Dequantize);

namespace {

// The largest |row[c]|; NaN is larger than infinity. As integers, bits of positive numbers have the order of the
// numbers.
float largest_size(const float* row, std::int64_t count) {
  std::int32_t largest = 0;
  for (std::int64_t c = 0; c < count; c++)
    largest = std::max(largest, std::bit_cast<std::int32_t>(row[c]) & std::numeric_limits<std::int32_t>::max());
  return std::bit_cast<float>(largest);
}

}  // namespace

float quantize_row(const float* row, std::int8_t* numbers, std::int64_t count) {
  const float largest = largest_size(row, count);
  const float scale = std::isfinite(largest) ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  if (scale > 0)
    PHASOR_DISPATCH(Quantize)(row, scale, numbers, static_cast<std::size_t>(count));
  else
    std::fill_n(numbers, count, std::int8_t{0});
  return scale;
}

void dequantize_row(const std::int8_t* numbers, float scale, float* row, std::int64_t count) {
  PHASOR_DISPATCH(Dequantize)(numbers, scale, row, static_cast<std::size_t>(count));
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
