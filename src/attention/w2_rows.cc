#include "w2_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "w2_rows.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/element-inl.h"
#include "simd/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Two sums hide some of the latency.
double Dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, size_t count) {
  double total = 0;
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  const size_t lanes = hn::Lanes(d);
  const auto load = [&](const float* x) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(half, x)); };
  auto even = hn::Zero(d), odd = hn::Zero(d);
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::MulAdd(load(a + i), load(b + i), even);
    odd = hn::MulAdd(load(a + i + lanes), load(b + i + lanes), odd);
  }
  total = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
#endif
  for (; i < count; i++) total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return total;
}

void SubtractFromRows(const float* HWY_RESTRICT x, size_t count, size_t channels, float* HWY_RESTRICT rows,
                      size_t stride) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < count; i++, rows += stride) {
    size_t c = 0;
    for (; c + lanes <= channels; c += lanes)
      hn::StoreU(hn::Sub(hn::LoadU(d, rows + c), hn::LoadU(d, x + c)), d, rows + c);
    for (; c < channels; c++) rows[c] -= x[c];
  }
}

void SigmaOfRow(size_t count, float* HWY_RESTRICT row) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto most = hn::Set(d, 88.0f);  // e^88 is the last whole power
    const auto half = hn::Mul(hn::Set(d, 0.5f), LoadFloat(d, row + i));
    StoreFloat(Exp(d, hn::IfThenElse(hn::Gt(half, most), most, half)), d, row + i);  // NaN stays NaN
  });
}

void RoundRow(size_t count, float* HWY_RESTRICT row) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto bits = RoundToBf16(d, LoadFloat(d, row + i));
    const auto upper = hn::Set(hn::RebindToUnsigned<decltype(d)>(), 0xffff0000u);
    StoreFloat(hn::BitCast(d, hn::And(bits, upper)), d, row + i);
  });
}

void MultiplyByHalf(const float* HWY_RESTRICT sigma, size_t count, float* HWY_RESTRICT gradient) {
  ForEachVector(count, [=](auto d, size_t i) HWY_ATTR {
    const auto half = hn::Mul(hn::Set(d, 0.5f), LoadFloat(d, sigma + i)), g = LoadFloat(d, gradient + i);
    StoreFloat(hn::IfThenZeroElse(hn::Eq(g, hn::Zero(d)), hn::Mul(half, g)), d, gradient + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(Dot);
HWY_EXPORT(SubtractFromRows);
HWY_EXPORT(SigmaOfRow);
HWY_EXPORT(RoundRow);
HWY_EXPORT(MultiplyByHalf);

double dot(const float* a, const float* b, std::int64_t count) {
  return PHASOR_DISPATCH(Dot)(a, b, static_cast<std::size_t>(count));
}

void subtract_from_rows(const float* x, std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride) {
  PHASOR_DISPATCH(SubtractFromRows)
  (x, static_cast<std::size_t>(count), static_cast<std::size_t>(channels), rows, static_cast<std::size_t>(stride));
}

void sigma_of_rows(std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride) {
  for (std::int64_t i = 0; i < count; i++)
    PHASOR_DISPATCH(SigmaOfRow)(static_cast<std::size_t>(channels), rows + i * stride);
}

void round_rows_to_bf16(std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride) {
  for (std::int64_t i = 0; i < count; i++)
    PHASOR_DISPATCH(RoundRow)(static_cast<std::size_t>(channels), rows + i * stride);
}

void multiply_by_half(const float* sigma, std::int64_t count, float* gradient) {
  PHASOR_DISPATCH(MultiplyByHalf)(sigma, static_cast<std::size_t>(count), gradient);
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
