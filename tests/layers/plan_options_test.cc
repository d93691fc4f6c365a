// What the caller, the plan and the layer itself say about the scores of a call is merged once.
#include "layers/plan_options.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace phasor {
namespace {

using detail::call_options;

PositionPlan biased_plan() {
  PositionPlan plan;
  plan.bias = RelativeBias{Tensor<float, 2>({2, 3}), -1};
  plan.score_scale = 0.5;
  return plan;
}

TEST(CallOptions, MergeCallerPlanAndLayer) {
  const PositionPlan plan = biased_plan();
  const Tensor<float, 3> key_bias({1, 2, 7});
  const AttentionOptions options = call_options({.layer = "L", .dropout = 0.1, .own = {.key_bias = key_bias}},
                                                {.causal = true, .softcap = 3.0}, plan);
  EXPECT_TRUE(options.causal);
  EXPECT_EQ(options.softcap, 3.0);
  EXPECT_EQ(options.scale, 0.5);
  EXPECT_EQ(options.relative_bias->table.data, plan.bias->table.data());
  EXPECT_EQ(options.key_bias.data, key_bias.data());
  EXPECT_EQ(options.dropout, 0.1);
  EXPECT_FALSE(call_options({.layer = "L", .scaled = false}, {}, plan).scale);
}

// A layer without terms of its own leaves the key bias to the caller.
TEST(CallOptions, ATermHasOneOwner) {
  const PositionPlan plan = biased_plan();
  const Tensor<float, 3> key_bias({1, 2, 7});
  EXPECT_EQ(call_options({.layer = "L"}, {.key_bias = key_bias}, plan).key_bias.data, key_bias.data());
  EXPECT_ERROR(call_options({.layer = "L", .own = {.key_bias = key_bias}}, {.key_bias = key_bias}, plan), "[L]",
               "options.key_bias: given", "the layer's");
  EXPECT_ERROR(call_options({.layer = "L"}, {.scale = 1.0}, plan), "[L]", "the plan's");
}

}  // namespace
}  // namespace phasor
