// The loops of decoding over a block of keys: scores as dot products along the channels, softmax along the keys, and
// weighted sums of the rows of values. Keys and values are read where they lie, whatever their type.
#if defined(PHASOR_ATTENTION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_DECODE_INL_H_
#undef PHASOR_ATTENTION_DECODE_INL_H_
#else
#define PHASOR_ATTENTION_DECODE_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>

#include "base2.h"
#include "simd/element-inl.h"
#include "simd/exp2-inl.h"
#include "simd/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys between two looks at the largest score: a multiple of every vector.
constexpr size_t kDecodeKeys = 64;
// Slots that share a vector of a key. With 4 keys that is 16 accumulators of 32 registers, or 8 of 16.
constexpr size_t kSlotsAtOnce = kVectors;

// Rows of keys or values as they lie.
template <class T>
struct TypedRows {
  const T* data;
  int64_t stride;
  const T* row(size_t i) const { return data + static_cast<int64_t>(i) * stride; }
};

// Rows that will be read next, by address. Fetching them while others are worked on keeps memory busy: the hardware's
// own prefetcher stops at each page, and does not know that values follow keys.
struct RowsAhead {
  const char* data = nullptr;
  int64_t stride = 0;  // bytes, as the sizes below
  size_t row_size = 0, count = 0;

  HWY_INLINE void Fetch(size_t row) const {
    if (row >= count) return;
    const char* from = data + static_cast<int64_t>(row) * stride;
    for (size_t i = 0; i < row_size; i += 64) hwy::Prefetch(from + i);
  }
};

// Calls body.operator()<R>(first) for R slots at a time.
template <class Body>
HWY_INLINE void ForEachSlots(size_t slots, const Body& body) {
  size_t s = 0;
  for (; s + kSlotsAtOnce <= slots; s += kSlotsAtOnce) body.template operator()<kSlotsAtOnce>(s);
  if constexpr (kSlotsAtOnce > 2) {
    if (s + 2 <= slots) body.template operator()<2>(s), s += 2;
  }
  if (s < slots) body.template operator()<1>(s);
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

// to[i] = sum of the lanes of vector i.
HWY_INLINE void StoreSums(FloatVec v0, FloatVec v1, FloatVec v2, FloatVec v3, float* HWY_RESTRICT to) {
  TransposeSquares(FloatTag(), v0, v1, v2, v3);
  StoreSumOfBlocks(FloatTag(), hn::Add(hn::Add(v0, v1), hn::Add(v2, v3)), to);
}

#endif

// scores[slot][i] = q[slot] . k[i] for R slots and four keys.
template <size_t R, class T>
HWY_INLINE void ScoreTile(size_t channels, const float* HWY_RESTRICT q, size_t q_stride, const T* const* k,
                          float* HWY_RESTRICT scores) {
  const FloatTag d;
  Tile<R, 4> sums;
  FillTile(sums, [&](size_t, size_t) PHASOR_TILE_LAMBDA { return hn::Zero(d); });
  for (size_t c = 0; c < channels; c += kLanes) {
    FloatVec key[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) key[i] = LoadFloat(d, k[i] + c);
#pragma GCC unroll 4
    for (size_t r = 0; r < R; r++) {
      const FloatVec query = hn::LoadU(d, q + r * q_stride + c);
#pragma GCC unroll 4
      for (size_t i = 0; i < 4; i++) sums.c[r][i] = hn::MulAdd(query, key[i], sums.c[r][i]);
    }
  }
#pragma GCC unroll 4
  for (size_t r = 0; r < R; r++)
    StoreSums(sums.c[r][0], sums.c[r][1], sums.c[r][2], sums.c[r][3], scores + r * kDecodeKeys);
}

// scores[slot][j] = q[slot] . k[j] for all slots and `keys` keys; further scores, up to a multiple of four, are those
// of the last key again.
template <class T>
HWY_NOINLINE void DotScores(size_t slots, size_t channels, const float* HWY_RESTRICT q, size_t q_stride, size_t keys,
                            const TypedRows<T>& k, const RowsAhead& ahead, float* HWY_RESTRICT scores) {
  for (size_t j = 0; j < keys; j += 4) {
    const T* rows[4];
    for (size_t i = 0; i < 4; i++) {
      rows[i] = k.row(std::min(j + i, keys - 1));
      ahead.Fetch(j + i);
    }
    ForEachSlots(slots, [&]<size_t R>(size_t s) PHASOR_TILE_LAMBDA {
      ScoreTile<R>(channels, q + s * q_stride, q_stride, rows, scores + s * kDecodeKeys + j);
    });
  }
}

// row = 2^(row - max) with the new max, `keys` of them up to a whole vector; returns the factor by which sums over
// earlier keys shrink. While all keys were hidden the max is -infinity, and 0 is subtracted instead.
inline HWY_NOINLINE float SoftmaxRow(size_t keys, float* HWY_RESTRICT row, float& max, float& sum) {
  const FloatTag d;
  FloatVec largest = hn::Set(d, -detail::kInfinity);
  for (size_t j = 0; j < keys; j += kLanes) largest = hn::Max(largest, hn::LoadU(d, row + j));
  const float now = std::max(max, hn::GetLane(hn::MaxOfLanes(d, largest)));
  const float shift = now == -detail::kInfinity ? 0.0f : now;
  const float factor = hn::GetLane(SoftmaxExp2(d, hn::Set(d, max - shift)));
  FloatVec total = hn::Zero(d);
  for (size_t j = 0; j < keys; j += kLanes) {
    const FloatVec weight = SoftmaxExp2(d, hn::Sub(hn::LoadU(d, row + j), hn::Set(d, shift)));
    total = hn::Add(total, weight);
    hn::StoreU(weight, d, row + j);
  }
  max = now;
  sum = factor * sum + hn::GetLane(hn::SumOfLanes(d, total));
  return factor;
}

// N vectors of channels of R slots: to[slot] = factor[slot] * to[slot] + sum over keys of weights[slot][j] * v[j].
template <size_t R, size_t N, class T>
HWY_INLINE void ValueTile(size_t keys, const float* HWY_RESTRICT weights, const TypedRows<T>& v, const RowsAhead& ahead,
                          const float* HWY_RESTRICT factors, float* HWY_RESTRICT to, size_t stride) {
  const FloatTag d;
  Tile<R, N> tile;
  FillTile(tile, [&](size_t r, size_t n)
                     HWY_ATTR { return hn::Mul(hn::Set(d, factors[r]), hn::LoadU(d, to + r * stride + n * kLanes)); });
  for (size_t j = 0; j < keys; j++) {
    ahead.Fetch(j);
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

// The same for all slots and channels; the first tile fetches ahead.
template <class T>
HWY_NOINLINE void AddValues(size_t slots, size_t channels, size_t keys, const float* HWY_RESTRICT weights,
                            const TypedRows<T>& v, RowsAhead ahead, const float* HWY_RESTRICT factors,
                            float* HWY_RESTRICT to, size_t stride) {
  ForEachSlots(slots, [&]<size_t R>(size_t s) PHASOR_TILE_LAMBDA {
    const auto tile = [&]<size_t N>(size_t c) PHASOR_TILE_LAMBDA {
      ValueTile<R, N>(keys, weights + s * kDecodeKeys, TypedRows<T>{v.data + c, v.stride}, ahead, factors + s,
                      to + s * stride + c, stride);
      ahead.count = 0;
    };
    size_t c = 0;
    for (; c + 4 * kLanes <= channels; c += 4 * kLanes) tile.template operator()<4>(c);
    for (; c < channels; c += kLanes) tile.template operator()<1>(c);
  });
}

// The same where a row that holds NaN or infinity must not meet a weight of 0, which hides it.
template <class T>
HWY_NOINLINE void AddValuesCarefully(size_t slots, size_t channels, size_t keys, const float* HWY_RESTRICT weights,
                                     const TypedRows<T>& v, const float* HWY_RESTRICT factors, float* HWY_RESTRICT to,
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
