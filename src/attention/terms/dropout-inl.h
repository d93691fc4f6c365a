// Dropout of weights. Whether the weight of (sequence, head, query, key) is dropped depends only on the seed and on
// these four numbers, so the backward pass drops the same ones.
#ifndef PHASOR_ATTENTION_TERMS_DROPOUT_H_
#define PHASOR_ATTENTION_TERMS_DROPOUT_H_

#include "call.h"
#include "phasor/core/check.h"

namespace phasor::detail {

struct DropoutOption {
  static void check(const char* function, const AttentionCall& call) {
    const double rate = call.options.dropout;
    PHASOR_CHECK(rate >= 0 && rate < 1, function, "dropout: rate ", rate, ", expected at least 0 and below 1");
  }
};

}  // namespace phasor::detail
#endif

#if defined(PHASOR_ATTENTION_TERMS_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_TERMS_DROPOUT_INL_H_
#undef PHASOR_ATTENTION_TERMS_DROPOUT_INL_H_
#else
#define PHASOR_ATTENTION_TERMS_DROPOUT_INL_H_
#endif

#include "scratch/scratch.h"
#include "simd/philox-inl.h"
#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

class Dropout {
 public:
  Dropout(const detail::AttentionCall& call, const detail::Sequence& sequence, detail::Arena& arena)
      : call_(call), sequence_(sequence) {
    if (call.options.dropout > 0) factors_ = arena.take(kTileSize);
  }

  void Load(const detail::QueryBlock& block) { head_ = block.head; }
  explicit operator bool() const { return factors_ != nullptr; }

  // The factors of a tile of weights: 0 for a dropped weight, 1 / (1 - rate) for others. Four consecutive keys share a
  // block of random numbers. Valid until the next call.
  HWY_NOINLINE const float* Factors(const TilePlace& place) const {
    const FloatTag d;
    const WordTag dw;
    const double rate = call_.options.dropout;
    const auto stream = static_cast<uint64_t>(sequence_.batch * call_.heads + head_);
    const FloatVec kept = hn::Set(d, static_cast<float>(1.0 / (1.0 - rate)));
    const WordVec threshold = hn::Set(dw, static_cast<uint32_t>(rate * 4294967296.0));
    const auto begin = static_cast<uint64_t>(sequence_.first_key + place.first_key), end = begin + place.rows;
    for (size_t v = 0; v < place.panel.vectors; v++) {
      const auto first_lane = static_cast<size_t>(place.panel.first_query) + v * kLanes;
      const WordVec query = hn::Iota(dw, static_cast<uint32_t>(first_lane));
      for (uint64_t group = begin / 4; group * 4 < end; group++) {
        const Words words = PhiloxBlocks(call_.options.seed, stream, query, hn::Set(dw, static_cast<uint32_t>(group)));
        const auto store = [&](uint64_t key, WordVec word) HWY_ATTR {
          if (key < begin || key >= end) return;
          const auto dropped = hn::RebindMask(d, hn::Lt(word, threshold));
          hn::StoreU(hn::IfThenZeroElse(dropped, kept), d, factors_ + (key - begin) * kPanel + v * kLanes);
        };
        store(group * 4, words.x0);
        store(group * 4 + 1, words.x1);
        store(group * 4 + 2, words.x2);
        store(group * 4 + 3, words.x3);
      }
    }
    return factors_;
  }

  // tile *= factors.
  void Apply(const TilePlace& place, float* HWY_RESTRICT tile) const {
    const FloatTag d;
    const float* HWY_RESTRICT factors = Factors(place);
    for (size_t i = 0; i < place.rows * kPanel; i += kLanes)  // lanes without queries too: one loop is faster
      hn::StoreU(hn::Mul(hn::LoadU(d, factors + i), hn::LoadU(d, tile + i)), d, tile + i);
  }

 private:
  const detail::AttentionCall& call_;
  const detail::Sequence& sequence_;
  int64_t head_ = 0;
  float* factors_ = nullptr;  // [kMostKeys][kPanel]
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
