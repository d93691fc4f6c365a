#include "phasor/core/weight.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace phasor {
namespace {

TEST(Weight, ShapesAndGradients) {
  Weight number("tau", {}), row("bias", {5}), matrix("weight", {2, 3});
  EXPECT_EQ(matrix.name(), "weight");
  EXPECT_EQ(number.size(), 1);
  EXPECT_EQ(row.matrix().shape, (Shape<2>{1, 5}));
  EXPECT_EQ(matrix.matrix().shape, (Shape<2>{2, 3}));
  EXPECT_EQ(Weight().size(), 0);
  matrix.gradient()[4] = 2.0f;
  EXPECT_EQ(matrix.gradient_matrix()(1, 1), 2.0f);
  matrix.clear_gradient();
  EXPECT_EQ(matrix.gradient_matrix()(1, 1), 0.0f);
  EXPECT_ERROR(Weight("weight", {2, 3, 4}), "[Weight]", "shape: of rank 3", "at most 2");
  EXPECT_ERROR(Weight("weight", {2, -3}), "[2, -3]");
}

TEST(Weight, Paths) {
  EXPECT_EQ(weight_path("attention", "q_proj"), "attention.q_proj");
  EXPECT_EQ(weight_path("", "tau"), "tau");
  Weight bias("bias", {3});
  NamedWeights list;
  list_weight("attention.q_proj", bias, list);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].name, "attention.q_proj.bias");
  EXPECT_EQ(list[0].weight, &bias);
}

}  // namespace
}  // namespace phasor
