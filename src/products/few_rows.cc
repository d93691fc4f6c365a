#include "few_rows.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "few_rows.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "micro_kernel-inl.h"
#include "ranges.h"
#include "simd/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sums[m][n] = dot product of row m of a and column n of b. Lanes are summed last, then the remainder of the depth.
// Elements of 16 bits are widened in registers. The next N columns are prefetched: with those of bf16 in memory, this
// took two thirds of the time.
template <size_t M, size_t N, class A, class B>
HWY_INLINE void DotTile(const A* HWY_RESTRICT a, size_t a_stride, const B* HWY_RESTRICT b, size_t b_stride,
                        size_t depth, float* HWY_RESTRICT sums) {
  const FloatTag d;
  FloatVec s[M][N];
  for (size_t m = 0; m < M; m++)
    for (size_t n = 0; n < N; n++) s[m][n] = hn::Zero(d);
  size_t k = 0;
  for (; k + kLanes <= depth; k += kLanes)
    for (size_t n = 0; n < N; n++) {
      __builtin_prefetch(b + (n + N) * b_stride + k);
      const FloatVec bn = LoadFloat(d, b + n * b_stride + k);
      for (size_t m = 0; m < M; m++) s[m][n] = hn::MulAdd(LoadFloat(d, a + m * a_stride + k), bn, s[m][n]);
    }
  for (size_t m = 0; m < M; m++)
    for (size_t n = 0; n < N; n++) {
      float sum = hn::GetLane(hn::SumOfLanes(d, s[m][n]));
      for (size_t t = k; t < depth; t++)
        sum += static_cast<float>(a[m * a_stride + t]) * static_cast<float>(b[n * b_stride + t]);
      sums[m * N + n] = sum;
    }
}

template <size_t M, size_t N, class A, class B>
HWY_INLINE void MultiplyDotTile(const products::Product& product, const TensorView<A, 2>& a, const TensorView<B, 2>& b,
                                int64_t row, int64_t column) {
  float sums[M * N];
  DotTile<M, N>(a.data + row * a.strides[0], static_cast<size_t>(a.strides[0]), b.data + column * b.strides[1],
                static_cast<size_t>(b.strides[1]), static_cast<size_t>(product.depth()), sums);
  for (size_t m = 0; m < M; m++)
    for (size_t n = 0; n < N; n++) {
      float& element = product.c(row + static_cast<int64_t>(m), column + static_cast<int64_t>(n));
      const float before = product.accumulate ? element : 0.0f;
      const float bias = product.bias.empty() ? 0.0f : product.bias[static_cast<size_t>(column) + n];
      element = before + bias + sums[m * N + n];
    }
}

// With up to 4 x 4 sums in registers.
template <class A, class B>
HWY_INLINE void MultiplyColumnsOf(const products::Product& product, const TensorView<A, 2>& a,
                                  const TensorView<B, 2>& b, const products::Range& columns) {
  constexpr int64_t kColumns = 4;
  const auto multiply_rows = [&]<size_t M>(int64_t row) HWY_ATTR {
    int64_t j = columns.first;
    for (; j + kColumns <= columns.end(); j += kColumns) MultiplyDotTile<M, kColumns>(product, a, b, row, j);
    for (; j < columns.end(); j++) MultiplyDotTile<M, 1>(product, a, b, row, j);
  };
  int64_t row = 0;
  for (; row + 4 <= product.rows(); row += 4) multiply_rows.template operator()<4>(row);
  for (; row + 2 <= product.rows(); row += 2) multiply_rows.template operator()<2>(row);
  for (; row < product.rows(); row++) multiply_rows.template operator()<1>(row);
}

// All rows of some columns of c.
void MultiplyColumns(const products::Product& product, const products::Range& columns) {
  product.a.visit([&](const auto& a) HWY_ATTR {
    product.b.visit([&](const auto& b) HWY_ATTR { MultiplyColumnsOf(product, a, b, columns); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "blocking.h"
#include "phasor/core/parallel.h"
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(MultiplyColumns);

namespace products {
namespace {

// As many as the rows of a tile of sums, so that b is read once.
constexpr std::int64_t kFewRows = 4;
// The columns of a tile of sums.
constexpr std::int64_t kTileColumns = 4;
// Elements of b that a task reads: 128 KiB of floats, or 64 of bf16, take some microseconds, long enough to start a
// task for.
constexpr std::int64_t kTaskElements = std::int64_t{1} << 15;

std::int64_t columns_per_task(const Product& product) {
  return std::max(kTileColumns, kTaskElements / product.depth() / kTileColumns * kTileColumns);
}

std::int64_t task_count(const Product& product) { return ceil_div(product.columns(), columns_per_task(product)); }

}  // namespace

bool has_few_rows(const Product& product) {
  return product.multiplications() > 0 && product.rows() <= kFewRows && is_contiguous_along(product.b, 0) &&
         is_contiguous_along(product.a, 1);
}

// The tasks of one product come after those of the previous one.
void multiply_few_rows(std::span<const Product> products) {
  std::int64_t tasks = 0, multiplications = 0;
  for (const Product& product : products) {
    tasks += task_count(product);
    multiplications += product.multiplications();
  }
  const auto run_task = [&](std::int64_t i) {
    const Product* product = products.data();
    for (; i >= task_count(*product); product++) i -= task_count(*product);
    PHASOR_DISPATCH(MultiplyColumns)(*product, part_of({0, product->columns()}, columns_per_task(*product), i));
  };
  if (multiplications > kSmallProduct) return parallel_for(tasks, run_task);
  for (std::int64_t i = 0; i < tasks; i++) run_task(i);
}

}  // namespace products
}  // namespace phasor
#endif  // HWY_ONCE
