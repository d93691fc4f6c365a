// The exponential of softmax by itself: each SIMD target has its own, or its own roundings.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/exp2_test.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

float OneExp2(float x) {
  const hn::ScalableTag<float> d;
  return hn::GetLane(SoftmaxExp2(d, hn::Set(d, x)));
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd/dispatch.h"
#include "support/every_target.h"

namespace phasor {

HWY_EXPORT(OneExp2);

namespace {

float exp2_of(float x) { return PHASOR_DISPATCH(OneExp2)(x); }

TEST(SoftmaxExp2, IsRightToOneAndAHalfUlp) {
  on_every_target([] {
    double largest = 0.0;
    for (float x = -100.25f; x < 20.0f; x += 0.000731f) {
      const double expected = std::exp2(static_cast<double>(x));
      largest = std::max(largest, std::fabs(static_cast<double>(exp2_of(x)) / expected - 1.0));
    }
    EXPECT_LE(largest, 1.5 * 0x1p-23);
    EXPECT_GT(largest, 0.0);
  });
}

TEST(SoftmaxExp2, IsOneAtZeroAndNothingFarBelow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  on_every_target([] {
    EXPECT_EQ(exp2_of(0.0f), 1.0f);
    EXPECT_GT(exp2_of(-100.25f), 0.0f);
    for (const float x : {-100.75f, -126.5f, -140.0f, -1e30f, -kInfinity}) EXPECT_EQ(exp2_of(x), 0.0f) << x;
    EXPECT_TRUE(std::isnan(exp2_of(std::numeric_limits<float>::quiet_NaN())));
  });
}

}  // namespace
}  // namespace phasor
#endif  // HWY_ONCE
