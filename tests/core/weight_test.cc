#include "phasor/core/weight.h"

#include <gtest/gtest.h>

#include <utility>

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

TEST(Weight, Bf16IsKeptAndSharedButNotTrained) {
  Weight weight("weight", {2, 3});
  for (std::size_t i = 0; i < 6; i++) weight.value()[i] = static_cast<float>(i) + 0x1p-12f;
  weight.gradient();
  weight.round_to_bf16();
  const Weight copy = weight;
  for (const Weight* each : {&std::as_const(weight), &copy}) {
    ASSERT_TRUE(each->is_bf16());
    EXPECT_EQ(each->size(), 6);
    EXPECT_EQ(static_cast<float>(each->bf16_matrix()(1, 2)), 5.0f);
  }
  EXPECT_EQ(copy.bf16_matrix().data, weight.bf16_matrix().data);
  EXPECT_ERROR(weight.value(), "[Weight] weight: kept in bf16", "expected floats");
  EXPECT_ERROR(weight.gradient(), "[Weight] weight: kept in bf16", "expected floats");
  EXPECT_ERROR(weight.matrix(), "[Weight] weight: kept in bf16", "expected floats");
}

TEST(Weight, F16IsKeptAndMayBeRoundedOnce) {
  Weight weight("weight", {2, 3});
  for (std::size_t i = 0; i < 6; i++) weight.value()[i] = static_cast<float>(i) + 0x1p-8f;
  weight.round_to_f16();
  ASSERT_TRUE(weight.is_f16());
  EXPECT_EQ(static_cast<float>(weight.f16_matrix()(1, 0)), 3.0f + 0x1p-8f);
  EXPECT_ERROR(weight.value(), "[Weight] weight: kept in f16", "expected floats");
  weight.round_to_bf16();
  EXPECT_FALSE(weight.is_f16());
  EXPECT_EQ(static_cast<float>(weight.bf16_matrix()(1, 0)), 3.0f);
}

// A file's floats are read where they lie, and copied when they are written.
TEST(Weight, KeptFloatsAreCopiedBeforeTheyChange) {
  const auto file = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  Weight weight("weight", {3});
  weight.keep(std::shared_ptr<const float>(file, file->data()));
  const Weight& reader = weight;
  EXPECT_EQ(reader.value().data(), file->data());
  weight.value()[0] = 9.0f;
  EXPECT_EQ(reader.value()[0], 9.0f);
  EXPECT_EQ(reader.value()[2], 3.0f);
  EXPECT_EQ((*file)[0], 1.0f);
}

TEST(Weight, ValuesThatComeLaterAreZerosAtFirstUse) {
  Weight weight = Weight::without_values("weight", {2, 3});
  const Weight& read = weight;
  EXPECT_EQ(weight.size(), 6);
  EXPECT_ERROR(read.value(), "[Weight] weight: has no values");
  EXPECT_EQ(weight.value()[5], 0.0f);
  EXPECT_EQ(read.value()[5], 0.0f);
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
