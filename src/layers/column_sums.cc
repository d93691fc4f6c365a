#include "column_sums.h"

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "column_sums.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Eight rows at once, as a tree: eight streams for the hardware prefetcher, and an eighth of the successive roundings.
void AddColumnStripe(const float* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t columns,
                     float* HWY_RESTRICT sums) {
  constexpr int64_t kTogether = 8;
  HWY_ALIGN float sum[detail::kColumnStripe] = {};
  int64_t n = 0;
  for (; n + kTogether <= rows; n += kTogether)
    ForEachVector(static_cast<size_t>(columns), [&](auto d, size_t c) HWY_ATTR {
      const float* at = x + n * stride + static_cast<int64_t>(c);
      const auto pair = [&](int64_t r) HWY_ATTR {
        return hn::Add(hn::LoadU(d, at + r * stride), hn::LoadU(d, at + (r + 1) * stride));
      };
      const auto eight = hn::Add(hn::Add(pair(0), pair(2)), hn::Add(pair(4), pair(6)));
      hn::StoreU(hn::Add(hn::LoadU(d, sum + c), eight), d, sum + c);
    });
  for (; n < rows; n++)
    ForEachVector(static_cast<size_t>(columns), [&](auto d, size_t c) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, sum + c), hn::LoadU(d, x + n * stride + static_cast<int64_t>(c))), d, sum + c);
    });
  for (int64_t c = 0; c < columns; c++) sums[c] += sum[c];
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "phasor/core/parallel.h"
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(AddColumnStripe);

void add_column_sums(TensorView<const float, 2> x, float* sums) {
  const std::int64_t rows = x.shape[0], columns = x.shape[1];
  const auto kernel = PHASOR_DISPATCH(AddColumnStripe);
  parallel_for((columns + kColumnStripe - 1) / kColumnStripe, [&](std::int64_t task) {
    const std::int64_t first = task * kColumnStripe;
    kernel(x.data + first, x.strides[0], rows, std::min(kColumnStripe, columns - first), sums + first);
  });
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
