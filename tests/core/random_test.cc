#include "phasor/core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace phasor {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Known answers of Philox4x32-10 published with Random123 (kat_vectors): counter, key -> block.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox(0, 0).block(0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~0ull, ~0ull).block(~0ull), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0
  EXPECT_EQ(Philox(0x299f31d0a4093822ull, 0x0370734413198a2eull).block(0x85a308d3243f6a88ull),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsUniform) {
  std::vector<float> values(100'000);
  Philox(42).fill_uniform(values, -1.0f, 3.0f);
  double mean = 0, square = 0;
  for (const float value : values) {
    ASSERT_GE(value, -1.0f);
    ASSERT_LT(value, 3.0f);
    mean += value;
    square += static_cast<double>(value - 1.0f) * (value - 1.0f);
  }
  EXPECT_NEAR(mean / 1e5, 1.0, 0.02);
  EXPECT_NEAR(square / 1e5, 16.0 / 12.0, 0.02);
}

TEST(Philox, NormalHasItsMoments) {
  std::vector<float> values(100'000);
  Philox(42).fill_normal(values, 2.0f, 3.0f);
  double mean = 0, square = 0, fourth = 0;
  for (const float value : values) {
    const double z = (value - 2.0) / 3.0;
    mean += z;
    square += z * z;
    fourth += z * z * z * z;
  }
  EXPECT_NEAR(mean / 1e5, 0.0, 0.02);
  EXPECT_NEAR(square / 1e5, 1.0, 0.02);
  EXPECT_NEAR(fourth / 1e5, 3.0, 0.1);
}

TEST(Philox, StreamsAndSeedsDiffer) {
  EXPECT_NE(Philox(1, 0).block(0), Philox(1, 1).block(0));
  EXPECT_NE(Philox(1, 0).block(0), Philox(2, 0).block(0));
  EXPECT_EQ(Philox(1, 0).uniform(5), Philox(1, 0).uniform(5));
}

}  // namespace
}  // namespace phasor
