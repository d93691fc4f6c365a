#include "phasor/core/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/every_target.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Rounding by definition: of the two neighbours in T, the nearer; on a tie the one with an even last bit.
template <class T>
std::uint16_t rounded_by_search(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint16_t low = 0, high = 0x7fff;  // patterns of one sign are ordered as their values are
  const T infinity(std::numeric_limits<float>::infinity());
  high = infinity.bits;
  while (low + 1 < high) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (static_cast<double>(static_cast<float>(T::from_bits(middle))) <= magnitude ? low : high) = middle;
  }
  const auto value_of = [&](std::uint16_t bits) {  // infinity counts as the next power of two
    if (bits != infinity.bits) return static_cast<double>(static_cast<float>(T::from_bits(bits)));
    return 2.0 * std::exp2(std::floor(std::log2(static_cast<float>(T::from_bits(bits - 1)))));
  };
  const double below = magnitude - value_of(low), above = value_of(high) - magnitude;
  const bool up = above < below || (above == below && (high & 1) == 0);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

template <class T>
void expect_rounding_by_definition() {
  for (std::uint64_t i = 0; i < 200'000; i++) {
    const auto bits = static_cast<std::uint32_t>(i * 2654435761u);
    const float value = from_bits(bits);
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(T(value).bits, rounded_by_search<T>(value)) << value;
  }
}

TEST(Dtype, Bf16RoundsToNearestEven) { expect_rounding_by_definition<bf16>(); }
TEST(Dtype, F16RoundsToNearestEven) { expect_rounding_by_definition<f16>(); }

TEST(Dtype, KnownValues) {
  EXPECT_EQ(bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bf16(257.0f).bits, bf16(256.0f).bits);  // a tie: to even
  EXPECT_EQ(bf16(from_bits(0x3f808001)).bits, 0x3f81);
  EXPECT_EQ(f16(1.0f).bits, 0x3c00);
  EXPECT_EQ(f16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(f16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(f16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(f16(-0.0f).bits, 0x8000);
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(from_bits(0x7f800001)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(f16(from_bits(0xff800001)))));
}

TEST(Dtype, EveryPatternSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; bits++) {
    const auto b = bf16::from_bits(static_cast<std::uint16_t>(bits));
    const auto h = f16::from_bits(static_cast<std::uint16_t>(bits));
    const bool quiet_b = std::isnan(static_cast<float>(b)), quiet_h = std::isnan(static_cast<float>(h));
    ASSERT_EQ(bf16(static_cast<float>(b)).bits, quiet_b ? bits | 0x40 : bits);
    ASSERT_EQ(f16(static_cast<float>(h)).bits, quiet_h ? bits | 0x200 : bits);
  }
}

// All exponents, both signs, fractions at and around every rounding boundary, NaNs, and a scatter of others.
std::vector<float> telling_floats() {
  std::vector<float> values;
  for (std::uint32_t head = 0; head < 0x10000; head++)
    for (const std::uint32_t tail :
         {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(from_bits(head << 16 | tail));
  return values;
}

template <class T>
void expect_simd_agrees_with_scalar() {
  const std::vector<float> values = telling_floats();
  std::vector<T> all_patterns(0x10000);
  for (std::uint32_t i = 0; i < 0x10000; i++) all_patterns[i] = T::from_bits(static_cast<std::uint16_t>(i));
  on_every_target([&] {
    std::vector<T> narrow(values.size());
    convert(values, std::span<T>(narrow));
    for (std::size_t i = 0; i < values.size(); i++)
      ASSERT_EQ(narrow[i].bits, T(values[i]).bits) << std::hex << std::bit_cast<std::uint32_t>(values[i]);
    std::vector<float> wide(all_patterns.size());
    convert(std::span<const T>(all_patterns), wide);
    for (std::size_t i = 0; i < wide.size(); i++)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]),
                std::bit_cast<std::uint32_t>(static_cast<float>(all_patterns[i])))
          << std::hex << i;
  });
}

TEST(Dtype, Bf16SimdAgreesWithScalar) { expect_simd_agrees_with_scalar<bf16>(); }
TEST(Dtype, F16SimdAgreesWithScalar) { expect_simd_agrees_with_scalar<f16>(); }

TEST(Dtype, ConvertWritesOnlyItsSpan) {
  on_every_target([] {
    for (const std::size_t count : {0, 1, 7, 17, 81}) {
      const std::vector<float> from(count, 1.5f);
      std::vector<bf16> to(count + 2, bf16::from_bits(0x1234));
      convert(from, std::span(to).subspan(1, count));
      EXPECT_EQ(to.front().bits, 0x1234);
      EXPECT_EQ(to.back().bits, 0x1234);
    }
  });
}

TEST(Dtype, ConvertRefusesSpansOfDifferentSize) {
  const std::vector<float> from(3);
  std::vector<f16> to(4);
  EXPECT_ERROR(convert(from, std::span<f16>(to)), "[convert]", "4 elements", "expected 3");
}

}  // namespace
}  // namespace phasor
