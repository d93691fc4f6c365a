#include "phasor/layers/positions.h"

#include "layers/check_layer.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

PositionPlan plan_of(Tensor<float, 3> table) {
  Philox(1).fill_normal({table.data(), static_cast<std::size_t>(table.size())});
  PositionPlan plan;
  plan.add = std::move(table);
  return plan;
}

// A table of `sequences` (1 or B) sequences.
void check(std::int64_t sequences) {
  const Shape<3> shape{3, 81, 17};
  const PositionPlan plan = plan_of(Tensor<float, 3>({sequences, 81, 17}));
  Guarded<float, 3> x(shape, {.gap = 2}), sum(shape, {.gap = 2}), grad(shape, {.gap = 1});
  fill_random(x, 2);
  fill_random(grad, 3);
  Tensor<float, 3> expected(plan.add->shape());
  std::fill(expected.begin(), expected.end(), 0.5f);
  for (std::int64_t b = 0; b < 3; b++)
    for (std::int64_t t = 0; t < 81; t++)
      for (std::int64_t c = 0; c < 17; c++) expected(sequences == 1 ? 0 : b, t, c) += grad.view(b, t, c);
  on_every_target([&] {
    for (const int threads : {1, 2, 3, 5}) {
      set_num_threads(threads);
      fill_random(sum, 2);
      add_positions(plan, sum.view);
      sum.expect_guards("x");
      PlanGradient gradient;
      gradient.add = Tensor<float, 3>(plan.add->shape());
      std::fill(gradient.add->begin(), gradient.add->end(), 0.5f);
      add_positions_backward(plan, grad.view, gradient);
      for (std::int64_t b = 0; b < 3; b++)
        for (std::int64_t t = 0; t < 81; t++)
          for (std::int64_t c = 0; c < 17; c++) {
            const std::int64_t row = sequences == 1 ? 0 : b;
            ASSERT_EQ(sum.view(b, t, c), x.view(b, t, c) + (*plan.add)(row, t, c));
            ASSERT_EQ((*gradient.add)(row, t, c), expected(row, t, c));  // one order of b, so exactly
          }
    }
  });
  set_num_threads(0);
}

TEST(Positions, AreAddedAndTheirGradientIsSummed) {
  check(1);
  check(3);
}

TEST(Positions, APlanWithoutATableChangesNothing) {
  Tensor<float, 3> x({1, 2, 3});
  PlanGradient gradient;
  add_positions({}, x.view());
  add_positions_backward({}, x.view(), gradient);
  for (const float value : x) EXPECT_EQ(value, 0.0f);
  EXPECT_FALSE(gradient.add.has_value());
}

TEST(Positions, TheGradientIsMadeWhenItIsNotThere) {
  const PositionPlan plan = plan_of(Tensor<float, 3>({1, 2, 3}));
  Tensor<float, 3> grad({2, 2, 3});
  std::fill(grad.begin(), grad.end(), 1.0f);
  PlanGradient gradient;
  add_positions_backward(plan, grad.view(), gradient);
  ASSERT_TRUE(gradient.add.has_value());
  for (const float value : *gradient.add) EXPECT_EQ(value, 2.0f);
}

TEST(Positions, ErrorsNameTheArgument) {
  const PositionPlan plan = plan_of(Tensor<float, 3>({2, 5, 4}));
  Tensor<float, 3> batch({3, 5, 4}), length({2, 6, 4}), fine({2, 5, 4});
  EXPECT_ERROR(add_positions(plan, batch.view()), "[add_positions]", "x: [3, 5, 4], expected", "plan.add: [2, 5, 4]");
  PlanGradient gradient;
  gradient.add = Tensor<float, 3>({1, 5, 4});
  EXPECT_ERROR(add_positions_backward(plan, length.view(), gradient), "[add_positions_backward]",
               "grad_x: [2, 6, 4], expected");
  EXPECT_ERROR(add_positions_backward(plan, fine.view(), gradient), "[add_positions_backward]",
               "gradient: add of [1, 5, 4]", "expected [2, 5, 4]");
}

}  // namespace
}  // namespace phasor
