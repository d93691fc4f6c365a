#include "phasor/core/tensor.h"

#include <numeric>

#include "support/expect_error.h"

namespace phasor {
namespace {

Tensor<float, 3> counting(const Shape<3>& shape) {
  Tensor<float, 3> tensor(shape);
  std::iota(tensor.begin(), tensor.end(), 0.0f);
  return tensor;
}

TEST(Tensor, IsZeroAlignedAndContiguous) {
  const Tensor<float, 3> tensor({2, 3, 5});
  EXPECT_EQ(tensor.size(), 30);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
  EXPECT_EQ(tensor.view().strides, (Shape<3>{15, 5, 1}));
  for (const float value : tensor) EXPECT_EQ(value, 0.0f);
}

TEST(Tensor, ViewsShareMemory) {
  Tensor<float, 3> tensor = counting({2, 3, 4});
  const TensorView<float, 3> view = tensor.view();
  EXPECT_EQ(view(1, 2, 3), 23.0f);
  EXPECT_EQ(view[1](2, 3), 23.0f);
  EXPECT_EQ(view.transposed(0, 1)(2, 1, 3), 23.0f);
  EXPECT_EQ(view.slice(1, 1, 2)(1, 1, 3), 23.0f);
  EXPECT_TRUE(view.transposed(0, 1).has_contiguous_rows());
  EXPECT_FALSE(view.transposed(0, 2).has_contiguous_rows());
  view(0, 0, 0) = 7.0f;
  EXPECT_EQ(tensor(0, 0, 0), 7.0f);
  const TensorView<const float, 3> reading = view;
  EXPECT_EQ(reading.data, view.data);
}

TEST(Tensor, CopiesAreDeepAndMovesKeepTheMemory) {
  Tensor<float, 3> tensor = counting({1, 2, 3});
  Tensor<float, 3> copy = tensor;
  copy(0, 0, 0) = 9.0f;
  EXPECT_EQ(tensor(0, 0, 0), 0.0f);
  const float* memory = copy.data();
  const Tensor<float, 3> moved = std::move(copy);
  EXPECT_EQ(moved.data(), memory);
}

TEST(Tensor, ZeroSizesAreLegal) {
  const Tensor<float, 3> tensor({2, 0, 5});
  EXPECT_EQ(tensor.size(), 0);
  const Tensor<float, 3> copy = tensor;
  EXPECT_EQ(copy.shape(), tensor.shape());
}

TEST(Tensor, RefusesImpossibleShapes) {
  using Cube = Tensor<float, 3>;
  EXPECT_ERROR(Cube({2, -1, 5}), "[2, -1, 5]", "no negative size");
  EXPECT_ERROR(Cube({1LL << 40, 1LL << 40, 1}), "memory can address");
  EXPECT_ERROR(Cube({0, 1LL << 40, 1LL << 40}), "memory can address");
  const Cube tensor = counting({2, 3, 4});
  EXPECT_ERROR(tensor.view().transposed(0, 3), "[transposed]", "0 and 3");
  EXPECT_ERROR(tensor.view().slice(1, 2, 2), "[slice]", "first 2", "size 3");
  EXPECT_ERROR(tensor.view().slice(1, -1, 2), "[slice]", "first -1");
}

}  // namespace
}  // namespace phasor
