// Dropout in lanes, for kPanel queries at once.
#if defined(PHASOR_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_DROPOUT_INL_H_
#undef PHASOR_ATTENTION_DROPOUT_INL_H_
#else
#define PHASOR_ATTENTION_DROPOUT_INL_H_
#endif

#include <array>
#include <cstdint>

#include "scores-inl.h"
#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// factors[i][lane]: 0 for a dropped weight, 1 / (1 - rate) for others; row i is key first_key + i of the tensor. Four
// consecutive keys share a block of random numbers.
inline HWY_NOINLINE void DropoutFactors(const Scoring& scoring, const QueryPanel& panel, int64_t first_key, size_t rows,
                                        float* HWY_RESTRICT factors) {
  const FloatTag d;
  const WordTag dw;
  const detail::AttentionCall& call = *scoring.call;
  const Dropout& dropout = call.options.dropout;
  const auto stream = static_cast<uint64_t>(scoring.sequence->batch * call.heads + scoring.head);
  const FloatVec kept = hn::Set(d, static_cast<float>(1.0 / (1.0 - dropout.rate)));
  const WordVec threshold = hn::Set(dw, static_cast<uint32_t>(dropout.rate * 4294967296.0));
  const auto begin = static_cast<uint64_t>(first_key), end = begin + rows;
  for (size_t v = 0; v < panel.vectors; v++) {
    const WordVec query = hn::Iota(dw, static_cast<uint32_t>(static_cast<size_t>(panel.first_query) + v * kLanes));
    for (uint64_t group = begin / 4; group * 4 < end; group++) {
      const Words words = PhiloxBlocks(dropout.seed, stream, query, hn::Set(dw, static_cast<uint32_t>(group)));
      const auto store = [&](uint64_t key, WordVec word) HWY_ATTR {
        if (key < begin || key >= end) return;
        const auto dropped = hn::RebindMask(d, hn::Lt(word, threshold));
        hn::StoreU(hn::IfThenZeroElse(dropped, kept), d, factors + (key - begin) * kPanel + v * kLanes);
      };
      store(group * 4, words.x0);
      store(group * 4 + 1, words.x1);
      store(group * 4 + 2, words.x2);
      store(group * 4 + 3, words.x3);
    }
  }
}

HWY_INLINE void MultiplyTile(size_t rows, const float* HWY_RESTRICT factors, float* HWY_RESTRICT tile) {
  const FloatTag d;
  for (size_t i = 0; i < rows * kPanel; i += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, factors + i), hn::LoadU(d, tile + i)), d, tile + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
