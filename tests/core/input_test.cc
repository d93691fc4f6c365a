#include "phasor/core/input.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "phasor/core/mapped_file.h"

namespace phasor {
namespace {

using Cube = Tensor<float, 3>;
using CubeInput = TensorInput<float, 3>;
using Numbers = SpanInput<std::int64_t>;

// ---- what must not compile ----

template <class T>
concept HasView = requires(T&& tensor) {
  std::forward<T>(tensor).view();
};
static_assert(HasView<Cube&> && HasView<const Cube&>);
static_assert(!HasView<Cube> && !HasView<const Cube>);

template <class T>
concept HasBytes = requires(T&& file) {
  std::forward<T>(file).bytes();
};
static_assert(HasBytes<const MappedFile&> && !HasBytes<MappedFile>);

// A constant temporary can be neither borrowed nor moved from.
static_assert(std::is_convertible_v<Cube, CubeInput> && std::is_convertible_v<const Cube&, CubeInput>);
static_assert(!std::is_convertible_v<const Cube, CubeInput>);
static_assert(std::is_convertible_v<std::vector<std::int64_t>, Numbers>);
static_assert(!std::is_convertible_v<const std::vector<std::int64_t>, Numbers>);
static_assert(!std::is_convertible_v<std::vector<int>&, Numbers>);

// ---- what must be right ----

Cube ones(const Shape<3>& shape) {
  Cube tensor(shape);
  std::fill(tensor.begin(), tensor.end(), 1.0f);
  return tensor;
}

double sum(const CubeInput& input) { return std::accumulate(input.data, input.data + input.size(), 0.0); }

TEST(TensorInput, BorrowsVariablesAndViews) {
  Cube tensor = ones({2, 3, 4});
  const CubeInput of_variable = tensor, of_constant = std::as_const(tensor), of_view = tensor.view();
  for (const CubeInput& input : {of_variable, of_constant, of_view}) {
    EXPECT_EQ(input.data, tensor.data());
    EXPECT_EQ(input.shape, tensor.shape());
  }
  tensor(0, 0, 0) = 5.0f;
  EXPECT_EQ(of_variable(0, 0, 0), 5.0f);
}

// Memory of the same size, taken while `input` lives, would be that of a freed tensor.
TEST(TensorInput, OwnsTemporariesAndSharesThemWithCopies) {
  CubeInput copy;
  {
    CubeInput input = ones({2, 3, 4});
    copy = input;
    const CubeInput moved = std::move(input);
    EXPECT_EQ(moved.data, copy.data);
  }
  Cube other({2, 3, 4});
  std::fill(other.begin(), other.end(), NAN);
  EXPECT_NE(copy.data, other.data());
  EXPECT_EQ(sum(copy), 24.0);
  EXPECT_EQ(sum(ones({1, 2, 2})), 4.0);  // as an argument
}

TEST(SpanInput, BorrowsVariablesAndViews) {
  std::vector<std::int64_t> list{1, 2};
  const std::array<std::int64_t, 2> pair{3, 4};
  const std::int64_t plain[] = {5, 6};
  EXPECT_EQ(Numbers(list).data(), list.data());
  EXPECT_EQ(Numbers(pair).data(), pair.data());
  EXPECT_EQ(Numbers(plain).data(), plain);
  EXPECT_EQ(Numbers(std::span(list)).data(), list.data());
}

TEST(SpanInput, OwnsTemporariesAndListsOfNumbers) {
  Numbers copy;
  {
    const Numbers input = std::vector<std::int64_t>{1, 2, 3};
    copy = input;
  }
  const std::vector<std::int64_t> other(3, -1);
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), std::int64_t{0}), 6);
  const Numbers braces = {4, 5};
  ASSERT_EQ(braces.size(), 2u);
  EXPECT_EQ(braces[1], 5);
  EXPECT_TRUE(Numbers().empty());
}

}  // namespace
}  // namespace phasor
