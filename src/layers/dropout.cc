#include "phasor/layers/dropout.h"

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dropout.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "dropout_group.h"
#include "simd/element-inl.h"
#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Element i of a group has word i / 64 of block i % 64: whole vectors of any width, without a shuffle.
void DropoutGroupFactors(const Dropout& dropout, int64_t group, float* HWY_RESTRICT factors) {
  const hn::ScalableTag<float> d;
  const WordTag dw;
  const auto first = static_cast<uint64_t>(group) * detail::kDropoutBlocks;
  const auto kept = hn::Set(d, static_cast<float>(1.0 / (1.0 - dropout.rate)));
  const WordVec threshold = hn::Set(dw, static_cast<uint32_t>(dropout.rate * 4294967296.0));
  for (size_t i = 0; i < detail::kDropoutBlocks; i += hn::Lanes(d)) {
    const Words words =
        PhiloxBlocks(dropout.seed, detail::kDropoutStream, hn::Set(dw, static_cast<uint32_t>(first >> 32)),
                     hn::Iota(dw, static_cast<uint32_t>(first + i)));
    const auto store = [&](size_t word, WordVec bits) HWY_ATTR {
      const auto dropped = hn::RebindMask(d, hn::Lt(bits, threshold));
      hn::StoreU(hn::IfThenZeroElse(dropped, kept), d, factors + word * detail::kDropoutBlocks + i);
    };
    store(0, words.x0);
    store(1, words.x1);
    store(2, words.x2);
    store(3, words.x3);
  }
}

void DropoutGroups(const Dropout& dropout, const detail::DropoutRows& rows, int64_t first_group, int64_t groups) {
  HWY_ALIGN float factors[detail::kDropoutGroup];
  for (int64_t group = first_group; group < first_group + groups; group++) {
    DropoutGroupFactors(dropout, group, factors);
    const int64_t begin = group * detail::kDropoutGroup, end = HWY_MIN(begin + detail::kDropoutGroup, rows.count);
    for (int64_t i = begin; i < end;) {  // a part of one row at a time
      const int64_t row = i / rows.columns, column = i % rows.columns;
      const int64_t part = HWY_MIN(rows.columns - column, end - i);
      const float* x = rows.x + row * rows.x_stride + column;
      float* y = rows.y + row * rows.y_stride + column;
      const float* factor = factors + (i - begin);
      ForEachVector(static_cast<size_t>(part), [=](auto d, size_t c) HWY_ATTR {
        const auto f = hn::LoadU(d, factor + c);
        hn::StoreU(hn::IfThenElseZero(hn::Gt(f, hn::Zero(d)), hn::Mul(f, hn::LoadU(d, x + c))), d, y + c);
      });
      i += part;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "check_rows.h"
#include "row_tasks.h"
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(DropoutGroups);

void dropout(const Dropout& settings, TensorView<const float, 2> x, TensorView<float, 2> y) {
  constexpr const char* kName = "dropout";
  PHASOR_CHECK(settings.rate >= 0 && settings.rate < 1, kName, "rate: ", settings.rate, ", expected in [0, 1)");
  detail::check_rows(kName, "x", x, detail::kAnyCount, x.shape[1]);
  detail::check_rows(kName, "y", y, x.shape[0], x.shape[1]);
  const detail::DropoutRows rows{x.data, y.data, x.strides[0], y.strides[0], x.shape[1], x.size()};
  const std::int64_t groups = (rows.count + detail::kDropoutGroup - 1) / detail::kDropoutGroup;
  const auto kernel = PHASOR_DISPATCH(DropoutGroups);
  detail::for_each_rows(groups, detail::kDropoutGroup,
                        [&](std::int64_t first, std::int64_t count) { kernel(settings, rows, first, count); });
}

}  // namespace phasor
#endif  // HWY_ONCE
