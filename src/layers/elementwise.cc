#include "elementwise.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "elementwise.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

void AddRow(const float* from, float* to, int64_t count) {
  ForEachVector(static_cast<size_t>(count), [=](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, from + i), hn::LoadU(d, to + i)), d, to + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "row_tasks.h"
#include "simd/dispatch.h"

namespace phasor::detail {

HWY_EXPORT(AddRow);

RowAdder row_adder() { return PHASOR_DISPATCH(AddRow); }

// Rows next to each other in both tensors are one long row.
void add_rows(TensorView<const float, 2> from, TensorView<float, 2> to) {
  PHASOR_CHECK(from.shape == to.shape, "add_rows", "from: ", shape_text(from.shape), ", expected ",
               shape_text(to.shape), " as to has");
  PHASOR_CHECK(from.has_contiguous_rows() && to.has_contiguous_rows(), "add_rows", "last stride: ", from.strides[1],
               " and ", to.strides[1], ", expected 1");
  const std::int64_t columns = to.shape[1];
  const bool dense = from.strides[0] == columns && to.strides[0] == columns;
  const RowAdder add = row_adder();
  for_each_rows(to.shape[0], columns, [&](std::int64_t first, std::int64_t rows) {
    const std::int64_t step = dense ? rows : 1;
    for (std::int64_t n = first; n < first + rows; n += step)
      add(from.data + n * from.strides[0], to.data + n * to.strides[0], step * columns);
  });
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
