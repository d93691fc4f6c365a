// The loops of decoding over a block of keys: scores as dot products along the channels, softmax along the keys, and
// weighted sums of the rows of values. Keys and values are read in place, whatever their type.
#if defined(PHASOR_ATTENTION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_DECODE_INL_H_
#undef PHASOR_ATTENTION_DECODE_INL_H_
#else
#define PHASOR_ATTENTION_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "decode_ahead.h"
#include "products/panel-inl.h"
#include "simd/element-inl.h"
#include "simd/exp2-inl.h"
#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys, or vectors of values, that R slots process at once: 8 accumulators of 16 registers, or 16 of 32.
template <size_t R>
constexpr size_t kAtOnce = std::min<size_t>(4, 4 * kVectors / R);

// Values that are added between two steps of the prefetcher.
constexpr size_t kKeysOfAStep = 16;

// Rows of keys or values in place, evenly spaced.
template <class T>
struct TypedRows {
  using Type = T;
  const T* data;
  int64_t stride;
  const T* row(size_t i) const { return data + static_cast<int64_t>(i) * stride; }
  TypedRows from_channel(size_t c) const { return {data + c, stride}; }
};

// The same in pages.
template <class T>
struct ListedRows {
  using Type = T;
  const T* const* rows;
  size_t first_channel;
  const T* row(size_t i) const { return rows[i] + first_channel; }
  ListedRows from_channel(size_t c) const { return {rows, first_channel + c}; }
};

// Keys between two updates of the largest score. Together with the prefetched keys, and the values of both, they just
// fill a first-level cache of 32 KiB.
HWY_INLINE size_t KeysInBlock(int64_t bytes_of_key_and_value) {
  return std::clamp<size_t>(static_cast<size_t>(16384 / bytes_of_key_and_value) / 16 * 16, 16, kDecodeKeys);
}

// Calls body.operator()<R>(first) for R slots at a time.
template <class Body>
HWY_INLINE void ForEachSlots(size_t slots, const Body& body) {
  size_t s = 0;
  for (; s + 4 <= slots; s += 4) body.template operator()<4>(s);
  if (s + 2 <= slots) body.template operator()<2>(s), s += 2;
  if (s < slots) body.template operator()<1>(s);
}

// Calls body.operator()<N>(channel) for N vectors of channels at a time.
template <size_t R, class Body>
HWY_INLINE void ForEachVectors(size_t channels, const Body& body) {
  constexpr size_t kMost = kAtOnce<R>;
  size_t c = 0;
  for (; c + kMost * kLanes <= channels; c += kMost * kLanes) body.template operator()<kMost>(c);
  for (; c < channels; c += kLanes) body.template operator()<1>(c);
}

// How often DotScores and AddValues call step() of the prefetcher.
inline int64_t ScoreSteps(size_t slots, size_t keys) {
  size_t steps = 0;
  ForEachSlots(slots, [&]<size_t R>(size_t) HWY_ATTR { steps += (keys + 3) / 4 * (4 / kAtOnce<R>); });
  return static_cast<int64_t>(steps);
}
inline int64_t ValueSteps(size_t slots, size_t channels, size_t keys) {
  size_t tiles = 0;
  ForEachSlots(slots, [&]<size_t R>(size_t)
                          HWY_ATTR { ForEachVectors<R>(channels, [&]<size_t N>(size_t) HWY_ATTR { tiles += 1; }); });
  return static_cast<int64_t>(tiles * ((keys + kKeysOfAStep - 1) / kKeysOfAStep));
}

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void StoreSums(FloatVec v0, FloatVec v1, FloatVec v2, FloatVec v3, float* HWY_RESTRICT to) {
  to[0] = hn::GetLane(v0), to[1] = hn::GetLane(v1), to[2] = hn::GetLane(v2), to[3] = hn::GetLane(v3);
}

#else

// to[i] = sum over the blocks of v of lane i.
template <class D>
HWY_INLINE void StoreSumOfBlocks(D d, hn::Vec<D> v, float* HWY_RESTRICT to) {
  if constexpr (hn::MaxLanes(D()) == kSquare) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    StoreSumOfBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  }
}

// Adds lane i and lane i + 2 of each block of four: those of a in even lanes of the result, of b in odd ones.
HWY_INLINE FloatVec AddHalves(FloatVec a, FloatVec b) {
  const FloatTag d;
  return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}

// to[i] = sum of the lanes of vector i.
HWY_INLINE void StoreSums(FloatVec v0, FloatVec v1, FloatVec v2, FloatVec v3, float* HWY_RESTRICT to) {
  const hn::Repartition<double, FloatTag> pairs;
  const auto first = hn::BitCast(pairs, AddHalves(v0, v1)), second = hn::BitCast(pairs, AddHalves(v2, v3));
  const FloatTag d;
  const FloatVec low = hn::BitCast(d, hn::InterleaveLower(pairs, first, second));
  const FloatVec high = hn::BitCast(d, hn::InterleaveUpper(pairs, first, second));
  StoreSumOfBlocks(d, hn::Add(low, high), to);
}

#endif

// scores[slot][i] = q[slot] . k[i] for R slots and M keys.
template <size_t R, size_t M, class T>
HWY_INLINE void ScoreTile(size_t channels, const float* HWY_RESTRICT q, size_t q_stride, const T* const* k,
                          detail::DecodeAhead& ahead, float* HWY_RESTRICT scores) {
  const FloatTag d;
  Tile<R, M> sums;
  FillTile(sums, [&](size_t, size_t) PHASOR_TILE_LAMBDA { return hn::Zero(d); });
  ahead.step();
  for (size_t c = 0; c < channels; c += kLanes) {
    FloatVec key[M];
#pragma GCC unroll 4
    for (size_t i = 0; i < M; i++) key[i] = LoadFloat(d, k[i] + c);
#pragma GCC unroll 4
    for (size_t r = 0; r < R; r++) {
      const FloatVec query = hn::LoadU(d, q + r * q_stride + c);
#pragma GCC unroll 4
      for (size_t i = 0; i < M; i++) sums.c[r][i] = hn::MulAdd(query, key[i], sums.c[r][i]);
    }
  }
  float totals[R * M];
  const auto sum = [&](size_t i) PHASOR_TILE_LAMBDA { return sums.c[i / M][i % M]; };
#pragma GCC unroll 4
  for (size_t i = 0; i < R * M; i += 4) StoreSums(sum(i), sum(i + 1), sum(i + 2), sum(i + 3), totals + i);
#pragma GCC unroll 4
  for (size_t r = 0; r < R; r++) std::copy_n(totals + r * M, M, scores + r * kDecodeKeys);
}

// scores[slot][j] = q[slot] . k[j] for all slots and `keys` keys; further scores, up to a multiple of four, are those
// of the last key again.
template <class Rows>
HWY_NOINLINE void DotScores(size_t slots, size_t channels, const float* HWY_RESTRICT q, size_t q_stride, size_t keys,
                            const Rows& k, detail::DecodeAhead& fetched, float* HWY_RESTRICT scores) {
  detail::DecodeAhead ahead = fetched;  // here, in registers
  for (size_t j = 0; j < keys; j += 4) {
    const typename Rows::Type* rows[4];
    for (size_t i = 0; i < 4; i++) rows[i] = k.row(std::min(j + i, keys - 1));
    ForEachSlots(slots, [&]<size_t R>(size_t s) PHASOR_TILE_LAMBDA {
      constexpr size_t kRun = kAtOnce<R>;
      for (size_t i = 0; i < 4; i += kRun)
        ScoreTile<R, kRun>(channels, q + s * q_stride, q_stride, rows + i, ahead, scores + s * kDecodeKeys + j + i);
    });
  }
  fetched = ahead;
}

// row = 2^(row - max) with the new max, `keys` of them up to a whole vector, added to `sums` lane by lane; returns the
// factor of the sums over earlier keys. While all keys are hidden, the max is -infinity, and 0 is subtracted instead.
inline HWY_NOINLINE float SoftmaxRow(size_t keys, float* HWY_RESTRICT row, float& max, float* HWY_RESTRICT sums) {
  const FloatTag d;
  FloatVec largest = hn::Set(d, -detail::kInfinity);
  for (size_t j = 0; j < keys; j += kLanes) largest = hn::Max(largest, hn::LoadU(d, row + j));
  const float now = std::max(max, hn::GetLane(hn::MaxOfLanes(d, largest)));
  const float shift = now == -detail::kInfinity ? 0.0f : now;
  const FloatVec factor = SoftmaxExp2(d, hn::Set(d, max - shift));
  FloatVec total = hn::Mul(factor, hn::LoadU(d, sums));
  for (size_t j = 0; j < keys; j += kLanes) {
    const FloatVec weight = SoftmaxExp2(d, hn::Sub(hn::LoadU(d, row + j), hn::Set(d, shift)));
    total = hn::Add(total, weight);
    hn::StoreU(weight, d, row + j);
  }
  hn::StoreU(total, d, sums);
  max = now;
  return hn::GetLane(factor);
}

// Scores of 8-bit keys *= the scales of the keys, `keys` of them up to a whole vector.
HWY_INLINE void ScaleScores(size_t keys, const float* HWY_RESTRICT scales, float* HWY_RESTRICT row) {
  const FloatTag d;
  for (size_t j = 0; j < keys; j += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, row + j), hn::LoadU(d, scales + j)), d, row + j);
}

// The same of weights for 8-bit values. The weight of a hidden key stays 0 beside a scale of NaN.
HWY_INLINE void ScaleWeights(size_t keys, const float* HWY_RESTRICT scales, float* HWY_RESTRICT row) {
  const FloatTag d;
  for (size_t j = 0; j < keys; j += kLanes) {
    const FloatVec weight = hn::LoadU(d, row + j);
    const FloatVec scaled = hn::Mul(weight, hn::LoadU(d, scales + j));
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), scaled), d, row + j);
  }
}

// N vectors of channels of R slots: to[slot] = factor[slot] * to[slot] + sum over keys of weights[slot][j] * v[j].
template <size_t R, size_t N, class Rows>
HWY_INLINE void ValueTile(size_t keys, const float* HWY_RESTRICT weights, const Rows& v, detail::DecodeAhead& ahead,
                          const float* HWY_RESTRICT factors, float* HWY_RESTRICT to, size_t stride) {
  const FloatTag d;
  Tile<R, N> tile;
  FillTile(tile, [&](size_t r, size_t n)
                     HWY_ATTR { return hn::Mul(hn::Set(d, factors[r]), hn::LoadU(d, to + r * stride + n * kLanes)); });
  for (size_t j = 0; j < keys; j++) {
    if (j % kKeysOfAStep == 0) ahead.step();
    FloatVec value[N];
#pragma GCC unroll 4
    for (size_t n = 0; n < N; n++) value[n] = LoadFloat(d, v.row(j) + n * kLanes);
#pragma GCC unroll 4
    for (size_t r = 0; r < R; r++) {
      const FloatVec weight = hn::Set(d, weights[r * kDecodeKeys + j]);
#pragma GCC unroll 4
      for (size_t n = 0; n < N; n++) tile.c[r][n] = hn::MulAdd(weight, value[n], tile.c[r][n]);
    }
  }
  StoreTile(tile, to, stride);
}

// The same for all slots and channels.
template <class Rows>
HWY_NOINLINE void AddValues(size_t slots, size_t channels, size_t keys, const float* HWY_RESTRICT weights,
                            const Rows& v, detail::DecodeAhead ahead, const float* HWY_RESTRICT factors,
                            float* HWY_RESTRICT to, size_t stride) {
  ForEachSlots(slots, [&]<size_t R>(size_t s) PHASOR_TILE_LAMBDA {
    ForEachVectors<R>(channels, [&]<size_t N>(size_t c) PHASOR_TILE_LAMBDA {
      ValueTile<R, N>(keys, weights + s * kDecodeKeys, v.from_channel(c), ahead, factors + s, to + s * stride + c,
                      stride);
    });
  });
}

// The same, but a row with NaN or infinity is not multiplied by a weight of 0, which hides it.
template <class Rows>
HWY_NOINLINE void AddValuesCarefully(size_t slots, size_t channels, size_t keys, const float* HWY_RESTRICT weights,
                                     const Rows& v, const float* HWY_RESTRICT factors, float* HWY_RESTRICT to,
                                     size_t stride) {
  const FloatTag d;
  for (size_t s = 0; s < slots; s++)
    for (size_t c = 0; c < channels; c += kLanes) {
      float* at = to + s * stride + c;
      FloatVec sum = hn::Mul(hn::Set(d, factors[s]), hn::LoadU(d, at));
      for (size_t j = 0; j < keys; j++) {
        const float weight = weights[s * kDecodeKeys + j];
        if (weight != 0) sum = hn::MulAdd(hn::Set(d, weight), LoadFloat(d, v.row(j) + c), sum);
      }
      hn::StoreU(sum, d, at);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
