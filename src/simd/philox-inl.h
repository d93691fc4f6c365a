// Philox (phasor/core/random.h) in lanes: a block of each counter.
#if defined(PHASOR_SIMD_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_PHILOX_INL_H_
#undef PHASOR_SIMD_PHILOX_INL_H_
#else
#define PHASOR_SIMD_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WordTag = hn::ScalableTag<uint32_t>;
using WordVec = hn::Vec<WordTag>;

struct WideProduct {
  WordVec high, low;
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE WideProduct MultiplyWide(WordVec a, uint32_t b) {
  const WordTag d;
  const uint64_t product = static_cast<uint64_t>(hn::GetLane(a)) * b;
  return {hn::Set(d, static_cast<uint32_t>(product >> 32)), hn::Set(d, static_cast<uint32_t>(product))};
}
#else
HWY_INLINE WideProduct MultiplyWide(WordVec a, uint32_t b) {
  const WordTag d;
  const hn::RepartitionToWide<WordTag> wide;
  const WordVec factor = hn::Set(d, b);
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), factor);
  return {hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even))};
}
#endif

struct Words {
  WordVec x0, x1, x2, x3;
};

// Philox::block of counters (counter_high << 32 | counter_low).
HWY_INLINE Words PhiloxBlocks(uint64_t seed, uint64_t stream, WordVec counter_high, WordVec counter_low) {
  const WordTag d;
  Words w{counter_low, counter_high, hn::Set(d, static_cast<uint32_t>(stream)),
          hn::Set(d, static_cast<uint32_t>(stream >> 32))};
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const WideProduct a = MultiplyWide(w.x0, 0xD2511F53u), b = MultiplyWide(w.x2, 0xCD9E8D57u);
    w = {hn::Xor(hn::Xor(b.high, w.x1), hn::Set(d, key0)), b.low, hn::Xor(hn::Xor(a.high, w.x3), hn::Set(d, key1)),
         a.low};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return w;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
