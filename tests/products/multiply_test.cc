// Matrix products against double, within their error bound, for all ways their operands are stored, of float and bf16.
#include "products/multiply.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "phasor/core/parallel.h"
#include "phasor/core/random.h"
#include "products/pairs.h"
#include "support/every_target.h"
#include "support/expect_error.h"
#include "support/guarded.h"
#include "support/sanitized.h"

namespace phasor {
namespace {

struct Case {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_by_columns = false, b_by_columns = false;
  bool accumulate = false;
  bool bias = false;
  std::int64_t gap = 0;
  Precision precision = Precision::storage;
};

// [rows, columns], stored by rows or by columns.
template <class T>
struct Operand {
  Guarded<T, 2> memory;
  TensorView<T, 2> view;

  Operand(std::int64_t rows, std::int64_t columns, bool by_columns, std::int64_t gap, std::uint64_t seed)
      : memory(by_columns ? Shape<2>{columns, rows} : Shape<2>{rows, columns}, {.gap = gap}),
        view(by_columns ? memory.view.transposed(0, 1) : memory.view) {
    std::uint64_t i = 0;
    memory.for_each([&](T& element) { element = T(Philox(seed).uniform(i++) * 2.0f - 1.0f); });
  }
};

bool contiguous(const products::Operand& x, std::size_t dimension) {
  return x.strides[dimension] == 1 || x.shape[dimension] <= 1;
}

// Whether floats are rounded to bf16: what multiply.h says of Product::precision.
bool rounds_to_bf16(const products::Product& p) {
  const bool few_rows = p.rows() <= 4 && contiguous(p.a, 1) && contiguous(p.b, 0);
  const bool narrow = p.precision == Precision::bf16 || (p.precision == Precision::storage && p.b.is_bf16);
  return products::PairMultiplier::available() && narrow && !few_rows && !p.b.is_f16;
}

template <class A, class B>
class ProductCheck {
 public:
  explicit ProductCheck(const Case& p)
      : p_(p),
        a_(p.m, p.k, p.a_by_columns, p.gap, 1),
        b_(p.k, p.n, p.b_by_columns, p.gap, 2),
        before_(p.m, p.n, false, p.gap, 3),
        bias_(p.bias ? static_cast<std::size_t>(p.n) : 0),
        exact_({p.m, p.n}),
        rounded_({p.m, p.n}),
        sizes_({p.m, p.n}) {
    Philox(4).fill_uniform(bias_, -1.0f, 1.0f);
    for (std::int64_t i = 0; i < p.m; i++)
      for (std::int64_t j = 0; j < p.n; j++) expect(i, j);
  }

  void run(bool all_threads) {
    const Guarded<float, 2> single = result(1);
    single.expect_guards("c");
    const Tensor<double, 2>& expected = rounds_to_bf16(product(single.view)) ? rounded_ : exact_;
    for (std::int64_t i = 0; i < p_.m; i++)
      for (std::int64_t j = 0; j < p_.n; j++)
        ASSERT_LE(std::fabs(single.view(i, j) - expected(i, j)), static_cast<double>(p_.k + 2) * 0x1p-24 * sizes_(i, j))
            << '[' << i << ", " << j << ']';
    if (!all_threads) return;
    for (const int threads : {2, 3, 5}) EXPECT_TRUE(result(threads).same_bits(single)) << threads << " threads";
  }

 private:
  void expect(std::int64_t i, std::int64_t j) {
    double start = p_.bias ? bias_[static_cast<std::size_t>(j)] : 0.0, size = std::fabs(start);
    if (p_.accumulate) {
      start += before_.view(i, j);
      size += std::fabs(static_cast<double>(before_.view(i, j)));
    }
    exact_(i, j) = rounded_(i, j) = start;
    for (std::int64_t k = 0; k < p_.k; k++) {
      const auto a = static_cast<float>(a_.view(i, k)), b = static_cast<float>(b_.view(k, j));
      exact_(i, j) += static_cast<double>(a) * b;
      rounded_(i, j) += static_cast<double>(static_cast<float>(bf16(a))) * static_cast<float>(bf16(b));
      size += std::fabs(static_cast<double>(a) * b);
    }
    sizes_(i, j) = size * (1 + 0x1p-7);  // that of the rounded ones, too
  }

  products::Product product(const TensorView<float, 2>& c) const {
    return {.a = a_.view, .b = b_.view, .c = c, .accumulate = p_.accumulate, .bias = bias_, .precision = p_.precision};
  }

  Guarded<float, 2> result(int threads) const {
    set_num_threads(threads);
    Guarded<float, 2> c({p_.m, p_.n}, {.gap = p_.gap});
    if (p_.accumulate)
      for (std::int64_t i = 0; i < p_.m; i++)
        for (std::int64_t j = 0; j < p_.n; j++) c.view(i, j) = before_.view(i, j);
    products::multiply(product(c.view));
    set_num_threads(0);
    return c;
  }

  Case p_;
  Operand<A> a_;
  Operand<B> b_;
  Operand<float> before_;
  std::vector<float> bias_;
  Tensor<double, 2> exact_, rounded_, sizes_;
};

template <class A = float, class B = float>
void check(const Case& p, bool all_threads) {
  SCOPED_TRACE("M " + std::to_string(p.m) + " N " + std::to_string(p.n) + " K " + std::to_string(p.k) +
               (p.a_by_columns ? ", a" : "") + (p.b_by_columns ? ", b" : "") + " by columns, gap " +
               std::to_string(p.gap) + (p.accumulate ? ", added" : "") + (p.bias ? ", bias" : "") + ", precision " +
               std::string(precision_name(p.precision)));
  ProductCheck<A, B> product(p);
  on_every_target([&] { product.run(all_threads); });
  set_simd_target("EMU_BF16");
  product.run(all_threads && !kSanitized);
  set_simd_target("");
}

// Weights of bf16 or f16 with activations of float or bf16, and the other combinations.
void check_narrow(const Case& p, std::uint64_t n, bool all_threads) {
  SCOPED_TRACE("types " + std::to_string(n % 6));
  if (n % 6 < 2) return check<float, bf16>(p, all_threads);
  if (n % 6 == 2) return check<bf16, bf16>(p, all_threads);
  if (n % 6 == 3) return check<bf16, float>(p, all_threads);
  if (n % 6 == 4) return check<float, f16>(p, all_threads);
  check<bf16, f16>(p, all_threads);
}

Case random_case(std::uint64_t n) {
  const auto r = Philox(11).block(n), s = Philox(11).block(1000 + n);
  const auto size = [&](std::uint32_t bits) { return std::int64_t{1} + (n % 3 == 0 ? bits % 12 : bits % 200); };
  return {.m = size(r[0]),
          .n = size(r[1]),
          .k = size(r[2]),
          .a_by_columns = (n & 1) != 0,
          .b_by_columns = (n & 2) != 0,
          .accumulate = r[3] % 2 != 0,
          .bias = s[0] % 2 != 0,
          .gap = s[1] % 2 ? 3 : 0,
          .precision = static_cast<Precision>(s[2] % 3)};
}

TEST(Multiply, RandomShapesInEveryStorage) {
  for (std::uint64_t n = 0; n < 120; n++) {
    check(random_case(n), n % 10 == 0);
    if (HasFatalFailure()) return;
  }
}

TEST(Multiply, RandomShapesOfBf16) {
  for (std::uint64_t n = 0; n < 120; n++) {
    check_narrow(random_case(500 + n), n / 8, n % 10 == 0);
    if (HasFatalFailure()) return;
  }
}

// Larger than a block of c, and deeper than what is made at once, in tasks of their own.
TEST(Multiply, SeveralBlocksInEveryStorage) {
  for (const Case& shape :
       {Case{.m = 400, .n = 136, .k = 64}, Case{.m = 40, .n = 64, .k = 520}, Case{.m = 3, .n = 512, .k = 200},
        Case{.m = 67, .n = 512, .k = 30}, Case{.m = 199, .n = 2100, .k = 66}, Case{.m = 199, .n = 70, .k = 1100}})
    for (int storage = 0; storage < 4; storage += kSanitized ? 3 : 1) {
      Case p = shape;
      p.a_by_columns = (storage & 1) != 0;
      p.b_by_columns = (storage & 2) != 0;
      p.accumulate = storage % 3 != 0;
      p.bias = storage < 2;
      p.gap = storage;
      check(p, true);
      p.precision = storage % 2 ? Precision::storage : Precision::float32;
      check_narrow(p, static_cast<std::uint64_t>(storage), true);
      if (HasFatalFailure()) return;
    }
}

constexpr std::int64_t kSide = 96;  // enough for every kind of kernel

Tensor<float, 2> normal_square(std::uint64_t seed) {
  Tensor<float, 2> x({kSide, kSide});
  Philox(seed).fill_normal(x);
  return x;
}

Tensor<float, 2> product(const Tensor<float, 2>& a, const Tensor<float, 2>& b,
                         Precision precision = Precision::storage) {
  Tensor<float, 2> c({a.shape()[0], b.shape()[1]});
  products::multiply({.a = a.view(), .b = b.view(), .c = c.view(), .precision = precision});
  return c;
}

// Also where floats are made of smaller numbers, whose digits end sooner.
TEST(Multiply, NumbersOfEverySizeKeepTheirDigits) {
  const Tensor<float, 2> a = normal_square(21), b = normal_square(22);
  on_every_target([&] {
    const Tensor<float, 2> expected = product(a, b);
    for (const float scale : {0x1p+80f, 0x1p-80f}) {
      Tensor<float, 2> scaled_a = normal_square(21), scaled_b = normal_square(22);
      for (float& x : scaled_a) x *= scale;
      for (float& x : scaled_b) x /= scale;
      const Tensor<float, 2> c = product(scaled_a, scaled_b);
      for (std::int64_t i = 0; i < c.size(); i++) ASSERT_EQ(c.data()[i], expected.data()[i]) << "scale " << scale;
    }
  });
}

TEST(Multiply, TheLargestFloatTimesOneIsItself) {
  Tensor<float, 2> a({kSide, kSide}), b({kSide, kSide});
  for (std::int64_t i = 0; i < kSide; i++)
    a(i, i) = (i % 2 ? -1.0f : 1.0f) * std::numeric_limits<float>::max(), b(i, i) = 1;
  on_every_target([&] {
    const Tensor<float, 2> c = product(a, b);
    for (std::int64_t i = 0; i < c.size(); i++) ASSERT_EQ(c.data()[i], a.data()[i]);
  });
}

TEST(Multiply, WhatIsNotFiniteStaysInItsRow) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Tensor<float, 2> a = normal_square(23);
    const Tensor<float, 2> b = normal_square(24);
    a(5, 7) = bad;
    const auto check_rows = [&] {
      for (const Precision precision : {Precision::float32, Precision::bf16}) {
        const Tensor<float, 2> c = product(a, b, precision);
        for (std::int64_t i = 0; i < kSide; i++)
          for (std::int64_t j = 0; j < kSide; j++)
            ASSERT_EQ(std::isfinite(c(i, j)), i != 5) << '[' << i << ", " << j << ']';
      }
    };
    on_every_target(check_rows);
    set_simd_target("EMU_BF16");
    check_rows();
    set_simd_target("");
  }
}

TEST(Multiply, ErrorIsThatOfPlainFloatLoops) {
  constexpr std::int64_t kRows = 64, kColumns = 64, kDepth = 1000;
  Tensor<float, 2> a({kRows, kDepth}), b({kDepth, kColumns});
  Philox(25).fill_normal(a), Philox(26).fill_normal(b);
  Tensor<double, 2> exact({kRows, kColumns});
  double plain_error = 0;
  for (std::int64_t i = 0; i < kRows; i++)
    for (std::int64_t j = 0; j < kColumns; j++) {
      float plain = 0;
      for (std::int64_t k = 0; k < kDepth; k++) {
        exact(i, j) += static_cast<double>(a(i, k)) * static_cast<double>(b(k, j));
        plain += a(i, k) * b(k, j);
      }
      plain_error = std::max(plain_error, std::fabs(plain - exact(i, j)));
    }
  on_every_target([&] {
    const Tensor<float, 2> c = product(a, b);
    double error = 0;
    for (std::int64_t i = 0; i < c.size(); i++)
      error = std::max(error, std::fabs(static_cast<double>(c.data()[i]) - exact.data()[i]));
    RecordProperty("error_" + simd_target(), std::to_string(error));
    RecordProperty("error_plain", std::to_string(plain_error));
    EXPECT_LE(error, plain_error);
  });
}

TEST(Multiply, NothingToSumLeavesBiasOrWhatWasThere) {
  Tensor<float, 2> a({2, 0}), b({0, 3}), c({2, 3});
  const std::vector<float> bias{1.0f, 2.0f, 3.0f};
  std::fill(c.begin(), c.end(), 7.0f);
  products::multiply({.a = a.view(), .b = b.view(), .c = c.view(), .accumulate = true});
  for (const float value : c) EXPECT_EQ(value, 7.0f);
  products::multiply({.a = a.view(), .b = b.view(), .c = c.view(), .bias = bias});
  for (std::int64_t j = 0; j < 3; j++) EXPECT_EQ(c(1, j), bias[static_cast<std::size_t>(j)]);
  Tensor<float, 2> no_rows({0, 4}), four({4, 3}), nothing({0, 3});
  products::multiply({.a = no_rows.view(), .b = four.view(), .c = nothing.view()});
}

TEST(Multiply, ErrorsNameTheShapes) {
  Tensor<float, 2> a({2, 4}), b({5, 3}), c({2, 3}), four({4, 3}), square({8, 8});
  using products::multiply, products::Product;
  EXPECT_ERROR(multiply(Product{.a = a.view(), .b = b.view(), .c = c.view()}), "[multiply]",
               "shapes: [2, 4] by [5, 3] into [2, 3]", "expected [M, K] by [K, N] into [M, N]");
  const TensorView<float, 2> apart(square.data(), {4, 3}, {16, 2});
  EXPECT_ERROR(multiply(Product{.a = a.view(), .b = apart, .c = c.view()}), "[multiply]", "strides: none is 1");
  const std::vector<float> bias(2);
  EXPECT_ERROR(multiply(Product{.a = a.view(), .b = four.view(), .c = c.view(), .bias = bias}), "[multiply]",
               "bias: 2 elements", "expected 3");
}

}  // namespace
}  // namespace phasor
