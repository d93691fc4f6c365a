// The running softmax of a panel of queries (lanes) over blocks of keys (rows).
#if defined(PHASOR_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_SOFTMAX_INL_H_
#undef PHASOR_ATTENTION_SOFTMAX_INL_H_
#else
#define PHASOR_ATTENTION_SOFTMAX_INL_H_
#endif

#include "base2.h"
#include "products/micro_kernel-inl.h"
#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Softmax of a panel so far: for each lane the largest score, the sum of 2^(score - max), and the factor of sums over
// earlier keys when the largest score grows.
struct SoftmaxLanes {
  float* max;
  float* sum;
  float* factor;
};

// The largest of the rows, lane by lane; four chains per half hide the latency.
HWY_INLINE FloatVec LargestRow(size_t rows, const float* HWY_RESTRICT tile) {
  const FloatTag d;
  FloatVec m0 = hn::Set(d, -detail::kInfinity), m1 = m0, m2 = m0, m3 = m0;
  size_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    m0 = hn::Max(m0, hn::LoadU(d, tile + i * kPanel));
    m1 = hn::Max(m1, hn::LoadU(d, tile + (i + 1) * kPanel));
    m2 = hn::Max(m2, hn::LoadU(d, tile + (i + 2) * kPanel));
    m3 = hn::Max(m3, hn::LoadU(d, tile + (i + 3) * kPanel));
  }
  for (; i < rows; i++) m0 = hn::Max(m0, hn::LoadU(d, tile + i * kPanel));
  return hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
}

// What a tile holds: scores, or scores before a factor of each lane.
struct WholeScores {
  HWY_INLINE WholeScores At(size_t /*v*/) const { return *this; }
  HWY_INLINE FloatVec Score(FloatVec x) const { return x; }
  HWY_INLINE FloatVec Minus(FloatVec x, FloatVec base) const { return hn::Sub(x, base); }
};
struct ScoresWithFactors {
  const float* factor;
  struct OfLanes {
    FloatVec factor;
    HWY_INLINE FloatVec Score(FloatVec x) const { return hn::Mul(factor, x); }
    HWY_INLINE FloatVec Minus(FloatVec x, FloatVec base) const { return hn::MulSub(factor, x, base); }
  };
  HWY_INLINE OfLanes At(size_t v) const { return {hn::LoadU(FloatTag(), factor + v)}; }
};

// How weights replace the scores of a tile. Store gives each score to `weight`, for one vector of lanes.
struct FloatWeights {
  template <class Weight>
  HWY_INLINE void Store(size_t rows, float* HWY_RESTRICT tile, const Weight& weight) const {
    const FloatTag d;
    for (size_t i = 0; i < rows; i++) hn::StoreU(weight(hn::LoadU(d, tile + i * kPanel)), d, tile + i * kPanel);
  }
};

// Rounded to bf16 in pairs of keys, [key / 2][lane][2]: what a product of pairs reads. To nearest; ties, which are
// rare, go to the larger number. A pair is stored over scores that were read before.
struct PairWeights {
  template <class Weight>
  HWY_INLINE void Store(size_t rows, float* HWY_RESTRICT tile, const Weight& weight) const {
    const FloatTag d;
    size_t i = 0;
    for (; i + 2 <= rows; i += 2) {
      const FloatVec even = weight(hn::LoadU(d, tile + i * kPanel)),
                     odd = weight(hn::LoadU(d, tile + (i + 1) * kPanel));
      hn::StoreU(Pair(even, odd), d, tile + i / 2 * kPanel);
    }
    if (i < rows) hn::StoreU(Pair(weight(hn::LoadU(d, tile + i * kPanel)), hn::Zero(d)), d, tile + i / 2 * kPanel);
  }

  static HWY_INLINE FloatVec Pair(FloatVec even, FloatVec odd) {
    const FloatTag d;
    const hn::RebindToUnsigned<FloatTag> du;
    const auto half = hn::Set(du, 0x8000u);
    const auto low = hn::ShiftRight<16>(hn::Add(hn::BitCast(du, even), half));
    const auto high = hn::AndNot(hn::Set(du, 0xffffu), hn::Add(hn::BitCast(du, odd), half));
    return hn::BitCast(d, hn::Or(low, high));
  }
};

// tile = 2^(score - max) with the new max. While all keys are hidden the max is -infinity, and 0 is subtracted instead.
template <class Scores, class Stored>
HWY_NOINLINE void SoftmaxStep(const Scores& scores, const Stored& stored, size_t vectors, size_t rows,
                              float* HWY_RESTRICT tile, const SoftmaxLanes& lanes) {
  const FloatTag d;
  for (size_t v = 0; v < vectors * kLanes; v += kLanes) {
    const auto of_lanes = scores.At(v);
    const FloatVec before = hn::LoadU(d, lanes.max + v);
    const FloatVec now = hn::Max(before, of_lanes.Score(LargestRow(rows, tile + v)));
    const FloatVec max = hn::IfThenZeroElse(hn::Eq(now, hn::Set(d, -detail::kInfinity)), now);
    const FloatVec factor = SoftmaxExp2(d, hn::Sub(before, max));
    hn::StoreU(now, d, lanes.max + v);
    hn::StoreU(factor, d, lanes.factor + v);
    FloatVec sum = hn::Zero(d);
    stored.Store(rows, tile + v, [&](FloatVec x) PHASOR_TILE_LAMBDA {
      const FloatVec weight = SoftmaxExp2(d, of_lanes.Minus(x, max));
      sum = hn::Add(sum, weight);
      return weight;
    });
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, lanes.sum + v), sum), d, lanes.sum + v);
  }
}

// tile = factor * 2^(score - base) lane by lane: scores to weights, when the softmax is known.
template <class Scores>
HWY_NOINLINE void Weights(const Scores& scores, size_t vectors, size_t rows, const float* HWY_RESTRICT base,
                          const float* HWY_RESTRICT factor, float* HWY_RESTRICT tile) {
  const FloatTag d;
  for (size_t v = 0; v < vectors * kLanes; v += kLanes) {
    const auto of_lanes = scores.At(v);
    const FloatVec base_v = hn::LoadU(d, base + v), factor_v = hn::LoadU(d, factor + v);
    FloatWeights().Store(rows, tile + v, [&](FloatVec x) PHASOR_TILE_LAMBDA {
      return hn::Mul(factor_v, SoftmaxExp2(d, of_lanes.Minus(x, base_v)));
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
