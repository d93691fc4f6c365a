// Products of pairs of bf16: each instruction against its plain code, bit by bit, and the plain code against double.
#include "products/pairs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "phasor/core/random.h"
#include "phasor/core/simd_target.h"
#include "support/guarded.h"

namespace phasor::products {
namespace {

struct Case {
  std::int64_t rows, columns, pairs;
  bool adds;
};

const Case kCases[] = {{1, 16, 1, false},   {6, 64, 32, false}, {16, 16, 16, true},  {17, 48, 17, true},
                       {31, 32, 5, false},  {32, 64, 48, true}, {33, 80, 20, false}, {96, 64, 32, false},
                       {112, 64, 64, true}, {13, 128, 3, true}, {40, 16, 0, false},  {5, 96, 33, true}};

// Memory of one case. Numbers differ in size, so that the order of sums shows.
class Operands {
 public:
  explicit Operands(const Case& c)
      : case_(c),
        a_({c.rows, 2 * c.pairs}, {.gap = 6}),
        b_({c.pairs, 2 * c.columns}, {.gap = 4}),
        before_({c.rows, c.columns}, {.gap = 3}) {
    std::uint64_t i = 0;
    const auto draw = [&] {
      const float size = std::exp2(std::floor(Philox(7).uniform(i++) * 12));
      return (Philox(8).uniform(i++) - 0.5f) * size;
    };
    a_.for_each([&](bf16& x) { x = bf16(draw()); });
    b_.for_each([&](bf16& x) { x = bf16(draw()); });
    before_.for_each([&](float& x) { x = draw(); });
  }

  bf16& a(std::int64_t i, std::int64_t k) { return a_.view(i, k); }
  bf16& b(std::int64_t k, std::int64_t j) { return b_.view(k / 2, 2 * j + k % 2); }

  template <class Multiply>
  Guarded<float, 2> product(const Multiply& multiply) {
    Guarded<float, 2> c({case_.rows, case_.columns}, {.gap = 3});
    for (std::int64_t i = 0; i < case_.rows; i++)
      for (std::int64_t j = 0; j < case_.columns; j++) c.view(i, j) = before_.view(i, j);
    multiply(PairProduct{a_.view.data, a_.view.strides[0], b_.view.data, b_.view.strides[0], c.view.data,
                         c.view.strides[0], case_.rows, case_.columns, case_.pairs, case_.adds});
    c.expect_guards("c");
    return c;
  }

  void expect_near(const Guarded<float, 2>& c) {
    for (std::int64_t i = 0; i < case_.rows; i++)
      for (std::int64_t j = 0; j < case_.columns; j++) {
        double sum = case_.adds ? before_.view(i, j) : 0.0, size = std::fabs(sum);
        for (std::int64_t k = 0; k < 2 * case_.pairs; k++) {
          const double term = static_cast<double>(static_cast<float>(a(i, k))) * static_cast<float>(b(k, j));
          sum += term, size += std::fabs(term);
        }
        const double most = static_cast<double>(2 * case_.pairs + 1) * 0x1p-24 * size;
        ASSERT_LE(std::fabs(c.view(i, j) - sum), most) << '[' << i << ", " << j << ']';
      }
  }

 private:
  Case case_;
  Guarded<bf16, 2> a_, b_;
  Guarded<float, 2> before_;
};

template <class Check>
void on_every_case(const Check& check) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.rows << " x " << c.columns << ", pairs " << c.pairs << ", adds " << c.adds);
    Operands operands(c);
    check(operands);
  }
}

// Whether the CPU has them, whatever target is in use.
bool has(const char* target) {
  for (const std::string& name : simd_targets())
    if (name == target) return true;
  return false;
}

void expect_equals_plain(const char* target, void (*plain)(const PairProduct&)) {
  if (!has(target)) GTEST_SKIP() << "this CPU has no " << target;
  set_simd_target(target);
  on_every_case([&](Operands& operands) {
    if (!PairMultiplier::available()) return;  // a build without vectors of AVX-512
    const Guarded<float, 2> expected = operands.product(plain);
    const PairMultiplier multiplier;
    EXPECT_TRUE(operands.product(multiplier).same_bits(expected));
  });
  set_simd_target("");
}

TEST(Pairs, PlainCodeIsTheProductToRounding) {
  on_every_case([](Operands& operands) {
    operands.expect_near(operands.product(multiply_pairs_plain));
    operands.expect_near(operands.product(multiply_tiles_plain));
  });
}

TEST(Pairs, Avx512EqualsItsPlainCode) { expect_equals_plain("AVX512_BF16", multiply_pairs_plain); }
TEST(Pairs, TilesEqualTheirPlainCode) { expect_equals_plain("AMX", multiply_tiles_plain); }

TEST(Pairs, EmulationIsAlwaysAvailable) {
  set_simd_target("EMU_BF16");
  EXPECT_EQ(simd_target(), "EMU_BF16");
  EXPECT_TRUE(PairMultiplier::available());
  Operands operands(kCases[3]);
  EXPECT_TRUE(operands.product(PairMultiplier()).same_bits(operands.product(multiply_pairs_plain)));
  set_simd_target("");
}

// A row with NaN or infinity does not reach other rows; neither does what lies beside an operand.
TEST(Pairs, RowsStayApart) {
  for (const char* target : {"EMU_BF16", "AVX512_BF16", "AMX"}) {
    if (std::string_view(target) != "EMU_BF16" && !has(target)) continue;
    set_simd_target(target);
    if (!PairMultiplier::available()) continue;
    Operands operands({21, 32, 9, false}), same({21, 32, 9, false});
    for (std::int64_t k = 0; k < 18; k++) operands.a(20, k) = bf16(k % 2 ? HUGE_VALF : std::nanf(""));
    const Guarded<float, 2> c = operands.product(PairMultiplier()), expected = same.product(PairMultiplier());
    for (std::int64_t i = 0; i < 21; i++)
      for (std::int64_t j = 0; j < 32; j++)
        EXPECT_EQ(c.view(i, j) == expected.view(i, j), i < 20) << target << " [" << i << ", " << j << ']';
  }
  set_simd_target("");
}

}  // namespace
}  // namespace phasor::products
