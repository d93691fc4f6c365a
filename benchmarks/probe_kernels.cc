#include "probe_kernels.h"

#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "probe_kernels.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace phasor::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Accumulators are parameter packs, not arrays: vectors of some targets (SVE) cannot stand in arrays, and each of a
// pack gets a register of its own.
template <class D, class... V>
HWY_INLINE float MulAddChains(D d, int64_t steps, V... chain) {
  const auto factor = hn::Set(d, 0.999f), addend = hn::Set(d, 1e-3f);  // towards 1: never infinite or subnormal
  for (int64_t step = 0; step < steps; step++) ((chain = hn::MulAdd(chain, factor, addend)), ...);
  auto total = hn::Zero(d);
  ((total = hn::Add(total, chain)), ...);
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// Chains that start alike would be merged into one.
template <class D, size_t... I>
HWY_INLINE float MulAddChainsFrom(D d, int64_t steps, float start, std::index_sequence<I...> /*chains*/) {
  return MulAddChains(d, steps, hn::Set(d, start + static_cast<float>(I))...);
}

// Two multiply-adds a cycle with a latency of 4 or 5 cycles want 10 chains: 12 fit into 16 registers with the two
// constants. Where there are 32 registers, 24 also serve CPUs with four units.
constexpr size_t kChains = HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3 ? 12 : 24;

double BusyFma(int64_t steps, float* result) {
  const hn::ScalableTag<float> d;
  *result = MulAddChainsFrom(d, steps, *result, std::make_index_sequence<kChains>());
  return 2.0 * static_cast<double>(kChains * hn::Lanes(d)) * static_cast<double>(steps);
}

// Four streams side by side: hardware prefetch keeps more lines under way than for one (27 against 22 GB/s on the Ice
// Lake machine of docs/performance.md). Two chains each: two loads a cycle into additions with a latency of 4 cycles.
float Sum(const float* HWY_RESTRICT values, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), length = count / 4 / (2 * lanes) * (2 * lanes);
  const float *stream0 = values, *stream1 = stream0 + length, *stream2 = stream1 + length, *stream3 = stream2 + length;
  auto a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  for (size_t i = 0; i < length; i += 2 * lanes) {
    a0 = hn::Add(a0, hn::LoadU(d, stream0 + i));
    b0 = hn::Add(b0, hn::LoadU(d, stream0 + i + lanes));
    a1 = hn::Add(a1, hn::LoadU(d, stream1 + i));
    b1 = hn::Add(b1, hn::LoadU(d, stream1 + i + lanes));
    a2 = hn::Add(a2, hn::LoadU(d, stream2 + i));
    b2 = hn::Add(b2, hn::LoadU(d, stream2 + i + lanes));
    a3 = hn::Add(a3, hn::LoadU(d, stream3 + i));
    b3 = hn::Add(b3, hn::LoadU(d, stream3 + i + lanes));
  }
  const auto a = hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), b = hn::Add(hn::Add(b0, b1), hn::Add(b2, b3));
  float result = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (size_t i = 4 * length; i < count; i++) result += values[i];
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor::bench {

HWY_EXPORT(BusyFma);
HWY_EXPORT(Sum);

double busy_fma(std::int64_t steps, float& result) { return PHASOR_DISPATCH(BusyFma)(steps, &result); }

float sum(std::span<const float> values) { return PHASOR_DISPATCH(Sum)(values.data(), values.size()); }

}  // namespace phasor::bench
#endif  // HWY_ONCE
