// Scratch memory: pieces apart and aligned, free again at the end of a scope, the same memory round after round.
#include "phasor/layers/workspace.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace phasor {
namespace {

using View = TensorView<float, 1>;

TEST(Workspace, PiecesAreApartAndAligned) {
  Workspace workspace;
  const Workspace::Scope scope(workspace);
  std::vector<View> pieces;
  for (const std::int64_t count : {1, 0, 15, 16, 17, 1000, 300000, 3, 1 << 18}) {
    pieces.push_back(workspace.take(Shape<1>{count}));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pieces.back().data) % 64, 0u);
    std::fill_n(pieces.back().data, count, static_cast<float>(pieces.size()));
  }
  for (std::size_t i = 0; i < pieces.size(); i++)
    for (std::int64_t j = 0; j < pieces[i].shape[0]; j++) ASSERT_EQ(pieces[i](j), static_cast<float>(i + 1));
}

TEST(Workspace, ViewsHaveTheShapeThatWasAskedFor) {
  Workspace workspace;
  const Workspace::Scope scope(workspace);
  const TensorView<float, 3> piece = workspace.take(Shape<3>{2, 3, 5});
  EXPECT_EQ(piece.shape, (Shape<3>{2, 3, 5}));
  EXPECT_EQ(piece.strides, (Shape<3>{15, 5, 1}));
}

TEST(Workspace, ScopesGiveBackWhatWasTakenInThem) {
  Workspace workspace;
  const Workspace::Scope outer(workspace);
  const View kept = workspace.take(Shape<1>{10});
  std::fill_n(kept.data, 10, 1.0f);
  float* inner_memory = nullptr;
  for (int round = 0; round < 3; round++) {
    const Workspace::Scope inner(workspace);
    const View piece = workspace.take(Shape<1>{100});
    EXPECT_TRUE(round == 0 || piece.data == inner_memory);
    inner_memory = piece.data;
    std::fill_n(piece.data, 100, 2.0f);
  }
  for (std::int64_t i = 0; i < 10; i++) EXPECT_EQ(kept(i), 1.0f);
}

// What is in use stays where it is when more is needed than there was, also when an inner scope ends.
TEST(Workspace, GrowingMovesNothing) {
  Workspace workspace;
  const Workspace::Scope outer(workspace);
  const View first = workspace.take(Shape<1>{1000});
  std::fill_n(first.data, 1000, 1.0f);
  {
    const Workspace::Scope inner(workspace);
    std::fill_n(workspace.take(Shape<1>{1 << 20}).data, 1 << 20, 2.0f);
    std::fill_n(workspace.take(Shape<1>{1 << 21}).data, 1 << 21, 3.0f);
  }
  const View after = workspace.take(Shape<1>{1 << 20});
  std::fill_n(after.data, 1 << 20, 4.0f);
  for (std::int64_t i = 0; i < 1000; i++) ASSERT_EQ(first(i), 1.0f);
}

// The first round allocates as it goes; then one block has room for all of it, and rounds get the same memory.
TEST(Workspace, RoundsAfterTheFirstGetTheSameMemory) {
  Workspace workspace;
  std::vector<float*> before;
  for (int round = 0; round < 4; round++) {
    const Workspace::Scope scope(workspace);
    std::vector<float*> pieces;
    for (const std::int64_t count : {1000, 1 << 18, 5, 1 << 19, 77777})
      pieces.push_back(workspace.take(Shape<1>{count}).data);
    EXPECT_TRUE(round <= 1 || pieces == before);
    before = pieces;
  }
}

TEST(Shaped, AllocatesOnlyForAnotherShape) {
  Tensor<float, 2> tensor;
  const float* memory = shaped(tensor, {3, 4}).data;
  tensor(1, 1) = 5.0f;
  EXPECT_EQ(shaped(tensor, {3, 4}).data, memory);
  EXPECT_EQ(tensor(1, 1), 5.0f);
  EXPECT_EQ(shaped(tensor, {4, 3})(1, 1), 0.0f);
  EXPECT_EQ(tensor.shape(), (Shape<2>{4, 3}));
}

}  // namespace
}  // namespace phasor
