#include "phasor/position/rotary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rotary.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "rotary_block.h"
#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Adjacent pairs in memory: even channels into a, odd ones into b.
template <class D, class V>
HWY_INLINE void LoadPairs(D d, const float* from, V& a, V& b) {
  hn::LoadInterleaved2(d, from, a, b);
}
template <class D, class V>
HWY_INLINE void StorePairs(V a, V b, D d, float* to) {
  hn::StoreInterleaved2(a, b, d, to);
}

// Two bf16 are one 32-bit lane, the even channel in its lower half; a bf16 in the upper half is a float already.
static_assert(std::endian::native == std::endian::little);
template <class D, class V>
HWY_INLINE void LoadPairs(D d, const bf16* from, V& a, V& b) {
  const hn::RebindToUnsigned<D> du;
  const auto both = hn::LoadU(du, reinterpret_cast<const uint32_t*>(from));
  a = hn::BitCast(d, hn::ShiftLeft<16>(both));
  b = hn::BitCast(d, hn::And(both, hn::Set(du, 0xffff0000u)));
}
template <class D, class V>
HWY_INLINE void StorePairs(V a, V b, D d, bf16* to) {
  const hn::RebindToUnsigned<D> du;
  const auto low = hn::ShiftRight<16>(RoundToBf16(d, a));
  const auto high = hn::And(RoundToBf16(d, b), hn::Set(du, 0xffff0000u));
  hn::StoreU(hn::Or(low, high), du, reinterpret_cast<uint32_t*>(to));
}

// f16 by way of floats in a buffer that stays in the first-level cache.
template <class D, class V>
HWY_INLINE void LoadPairs(D d, const f16* from, V& a, V& b) {
  HWY_ALIGN float wide[2 * HWY_MAX_BYTES / sizeof(float)];
  const size_t lanes = hn::Lanes(d);
  hn::StoreU(LoadFloat(d, from), d, wide);
  hn::StoreU(LoadFloat(d, from + lanes), d, wide + lanes);
  hn::LoadInterleaved2(d, wide, a, b);
}
template <class D, class V>
HWY_INLINE void StorePairs(V a, V b, D d, f16* to) {
  HWY_ALIGN float wide[2 * HWY_MAX_BYTES / sizeof(float)];
  const size_t lanes = hn::Lanes(d);
  hn::StoreInterleaved2(a, b, d, wide);
  StoreFloat(hn::LoadU(d, wide), d, to);
  StoreFloat(hn::LoadU(d, wide + lanes), d, to + lanes);
}

// The channels of one head at one token.
template <Pairing P, class T>
HWY_INLINE void RotateRow(const T* x, const float* cos, const float* sin, uint32_t sin_sign, size_t pairs, T* out) {
  ForEachVector(pairs, [=](auto d, size_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> du;
    const auto c = hn::LoadU(d, cos + i);
    const auto s = hn::Xor(hn::LoadU(d, sin + i), hn::BitCast(d, hn::Set(du, sin_sign)));
    auto a = hn::Zero(d), b = hn::Zero(d);
    if constexpr (P == Pairing::half) {
      a = LoadFloat(d, x + i);
      b = LoadFloat(d, x + i + pairs);
    } else {
      LoadPairs(d, x + 2 * i, a, b);
    }
    const auto rotated_a = hn::NegMulAdd(b, s, hn::Mul(a, c));
    const auto rotated_b = hn::MulAdd(a, s, hn::Mul(b, c));
    if constexpr (P == Pairing::half) {
      StoreFloat(rotated_a, d, out + i);
      StoreFloat(rotated_b, d, out + i + pairs);
    } else {
      StorePairs(rotated_a, rotated_b, d, out + 2 * i);
    }
  });
}

template <Pairing P, class T>
void RotateBlock(const RotaryBlock<T>& block) {
  const auto rotate = [&block](int64_t head, int64_t token) HWY_ATTR {
    const T* x = block.x + head * block.x_head + token * block.x_token;
    T* out = block.out + head * block.out_head + token * block.out_token;
    for (int64_t c = 0; c < block.channels; c += 64 / static_cast<int64_t>(sizeof(T)))
      hwy::Prefetch(x + c + block.prefetch);
    RotateRow<P>(x, block.cos + head * block.cos_head + token * block.cos_token,
                 block.sin + head * block.sin_head + token * block.sin_token, block.sin_sign,
                 static_cast<size_t>(block.pairs), out);
    const int64_t rotated = 2 * block.pairs;
    if (x != out && rotated < block.channels)
      std::memcpy(out + rotated, x + rotated, static_cast<size_t>(block.channels - rotated) * sizeof(T));
  };
  if (block.x_token <= block.x_head) {
    for (int64_t head = 0; head < block.heads; head++)
      for (int64_t token = 0; token < block.tokens; token++) rotate(head, token);
  } else {
    for (int64_t token = 0; token < block.tokens; token++)
      for (int64_t head = 0; head < block.heads; head++) rotate(head, token);
  }
}

void RotateHalfFloat(const RotaryBlock<float>& block) { RotateBlock<Pairing::half>(block); }
void RotateHalfBf16(const RotaryBlock<bf16>& block) { RotateBlock<Pairing::half>(block); }
void RotateHalfF16(const RotaryBlock<f16>& block) { RotateBlock<Pairing::half>(block); }
void RotateAdjacentFloat(const RotaryBlock<float>& block) { RotateBlock<Pairing::adjacent>(block); }
void RotateAdjacentBf16(const RotaryBlock<bf16>& block) { RotateBlock<Pairing::adjacent>(block); }
void RotateAdjacentF16(const RotaryBlock<f16>& block) { RotateBlock<Pairing::adjacent>(block); }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "phasor/core/check.h"
#include "phasor/core/parallel.h"
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(RotateHalfFloat);
HWY_EXPORT(RotateHalfBf16);
HWY_EXPORT(RotateHalfF16);
HWY_EXPORT(RotateAdjacentFloat);
HWY_EXPORT(RotateAdjacentBf16);
HWY_EXPORT(RotateAdjacentF16);

namespace {

void rotate_block(Pairing pairing, const RotaryBlock<float>& block) {
  pairing == Pairing::half ? PHASOR_DISPATCH(RotateHalfFloat)(block) : PHASOR_DISPATCH(RotateAdjacentFloat)(block);
}
void rotate_block(Pairing pairing, const RotaryBlock<bf16>& block) {
  pairing == Pairing::half ? PHASOR_DISPATCH(RotateHalfBf16)(block) : PHASOR_DISPATCH(RotateAdjacentBf16)(block);
}
void rotate_block(Pairing pairing, const RotaryBlock<f16>& block) {
  pairing == Pairing::half ? PHASOR_DISPATCH(RotateHalfF16)(block) : PHASOR_DISPATCH(RotateAdjacentF16)(block);
}

// The bytes from a view's first to its last element.
template <class T>
std::pair<const char*, const char*> extent(const TensorView<T, 4>& view) {
  const T *low = view.data, *high = view.data;
  for (std::size_t i = 0; i < 4; i++) (view.strides[i] < 0 ? low : high) += (view.shape[i] - 1) * view.strides[i];
  return {reinterpret_cast<const char*>(low), reinterpret_cast<const char*>(high + 1)};
}

template <class T>
void check_rotary(const TensorView<const T, 4>& x, const RotaryView& table, const TensorView<T, 4>& out) {
  constexpr const char* kName = "apply_rotary";
  PHASOR_CHECK(out.shape == x.shape, kName, "out: shape ", shape_text(out.shape), ", expected ", shape_text(x.shape),
               " as x has");
  PHASOR_CHECK(x.has_contiguous_rows(), kName, "x: last stride ", x.strides[3], ", expected 1");
  PHASOR_CHECK(out.has_contiguous_rows(), kName, "out: last stride ", out.strides[3], ", expected 1");
  PHASOR_CHECK(table.cos.shape == table.sin.shape, kName, "table: cos of shape ", shape_text(table.cos.shape),
               " and sin of shape ", shape_text(table.sin.shape), ", expected the same");
  PHASOR_CHECK(table.cos.has_contiguous_rows() && table.sin.has_contiguous_rows(), kName,
               "table: last stride is not 1, expected 1");
  PHASOR_CHECK(table.cos.shape[0] == 1 || table.cos.shape[0] == x.shape[0], kName, "table: ", table.cos.shape[0],
               " sequences, expected 1 or ", x.shape[0], " as x of shape ", shape_text(x.shape), " has");
  PHASOR_CHECK(table.cos.shape[1] == 1 || table.cos.shape[1] == x.shape[1], kName, "table: ", table.cos.shape[1],
               " heads, expected 1 or ", x.shape[1], " as x of shape ", shape_text(x.shape), " has");
  PHASOR_CHECK(table.tokens() >= x.shape[2], kName, "table: ", table.tokens(), " tokens, expected at least ",
               x.shape[2], " as x of shape ", shape_text(x.shape), " has");
  PHASOR_CHECK(2 * table.pairs() <= x.shape[3], kName, "table: rotates ", 2 * table.pairs(),
               " channels, expected at most ", x.shape[3], " as x of shape ", shape_text(x.shape), " has");
  if (x.size() == 0) return;
  bool same = x.data == out.data;
  for (std::size_t i = 0; i < 4; i++) {
    PHASOR_CHECK(out.shape[i] == 1 || out.strides[i] != 0, kName, "out: stride 0 in dimension ", i,
                 ", expected an element of its own for each result");
    same = same && (x.shape[i] == 1 || x.strides[i] == out.strides[i]);
  }
  if (same) return;
  const auto [x_low, x_high] = extent(x);
  const auto [out_low, out_high] = extent(out);
  PHASOR_CHECK(x_high <= out_low || out_high <= x_low, kName,
               "out: its memory range overlaps that of x, expected x itself or a range of its own");
}

// The stride of a dimension, 0 where its one index serves all.
std::int64_t broadcast_stride(const TensorView<const float, 4>& table, std::size_t dimension) {
  return table.shape[dimension] == 1 ? 0 : table.strides[dimension];
}

// How the rows of x are cut into tasks.
struct Tiling {
  std::int64_t heads, tokens;  // of a task
  std::int64_t prefetch;       // how far ahead of a row, in elements
};

// A task is about a thousand rows, in runs that follow the memory and are as long as possible: hardware prefetches
// along a run, and we prefetch 4 KiB ahead on it, past the end of a page. 256 tokens of a table stay in the
// second-level cache.
template <class T>
Tiling tiling(const TensorView<const T, 4>& x) {
  constexpr std::int64_t kRows = 1024, kLongestRun = 256, kPrefetchBytes = 4096;
  const auto [batch, heads, tokens, channels] = x.shape;
  const bool tokens_inside = x.strides[2] <= x.strides[1];
  const std::int64_t run = std::min(kLongestRun, tokens_inside ? tokens : heads), runs = kRows / run;
  const auto row_bytes = channels * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t rows_ahead = std::max<std::int64_t>(1, kPrefetchBytes / row_bytes);
  return {.heads = tokens_inside ? runs : run,
          .tokens = tokens_inside ? run : runs,
          .prefetch = rows_ahead * std::min(x.strides[1], x.strides[2])};
}

template <class T>
void rotate_all(const TensorView<const T, 4>& x, const RotaryView& table, const TensorView<T, 4>& out,
                Rotation rotation) {
  check_rotary(x, table, out);
  if (x.size() == 0) return;
  const Tiling tile = tiling(x);
  const std::int64_t head_tiles = (x.shape[1] + tile.heads - 1) / tile.heads;
  const std::int64_t token_tiles = (x.shape[2] + tile.tokens - 1) / tile.tokens;
  const auto task = [&](std::int64_t index) {
    const std::int64_t head = index % head_tiles * tile.heads;
    const std::int64_t token = index / head_tiles % token_tiles * tile.tokens;
    const std::int64_t b = index / head_tiles / token_tiles;
    const auto first_row = [&](const TensorView<const float, 4>& numbers) {
      return numbers.data + b * broadcast_stride(numbers, 0) + head * broadcast_stride(numbers, 1) +
             token * numbers.strides[2];
    };
    rotate_block(table.pairing, RotaryBlock<T>{
                                    .x = &x(b, head, token, 0),
                                    .out = &out(b, head, token, 0),
                                    .cos = first_row(table.cos),
                                    .sin = first_row(table.sin),
                                    .x_head = x.strides[1],
                                    .x_token = x.strides[2],
                                    .out_head = out.strides[1],
                                    .out_token = out.strides[2],
                                    .cos_head = broadcast_stride(table.cos, 1),
                                    .cos_token = table.cos.strides[2],
                                    .sin_head = broadcast_stride(table.sin, 1),
                                    .sin_token = table.sin.strides[2],
                                    .heads = std::min(tile.heads, x.shape[1] - head),
                                    .tokens = std::min(tile.tokens, x.shape[2] - token),
                                    .pairs = table.pairs(),
                                    .channels = x.shape[3],
                                    .prefetch = tile.prefetch,
                                    .sin_sign = rotation == Rotation::transpose ? 0x80000000u : 0u,
                                });
  };
  const std::int64_t tasks = x.shape[0] * token_tiles * head_tiles;
  constexpr std::int64_t kWorthThreads = 1 << 15;  // elements: about what one thread rotates while another wakes up
  if (x.size() < kWorthThreads) {
    for (std::int64_t i = 0; i < tasks; i++) task(i);
  } else {
    parallel_for(tasks, task);
  }
}

}  // namespace

void apply_rotary(TensorView<const float, 4> x, const RotaryView& table, TensorView<float, 4> out, Rotation rotation) {
  rotate_all(x, table, out, rotation);
}
void apply_rotary(TensorView<const bf16, 4> x, const RotaryView& table, TensorView<bf16, 4> out, Rotation rotation) {
  rotate_all(x, table, out, rotation);
}
void apply_rotary(TensorView<const f16, 4> x, const RotaryView& table, TensorView<f16, 4> out, Rotation rotation) {
  rotate_all(x, table, out, rotation);
}

}  // namespace phasor
#endif  // HWY_ONCE
