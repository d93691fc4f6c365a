// How far a kernel may be from the double reference: twice as far as the plain float implementation is, at worst, in
// the same tensor, plus 4 ulp of the largest number in its row (the last dimension). 16-bit results add the half ulp
// of being stored.
//
// Some numbers are small though what they are made of is not. Gradients are sums that cancel: a bias common to all keys
// of a row has a gradient of 0, made of terms that are not. A weight is the exponential of a score that may be the
// small rest of a long dot product. In a small tensor the plain implementation can be right by luck there, or because
// its errors cancel too, and 4 ulp of nearly nothing are nearly nothing. So where 2 ulp of a number's size before
// cancellation (reference/sized.h) are more than these 4 ulp, they are allowed instead: the terms' roundings, as a
// random walk, were seen to reach 1 ulp of the size once in 2000 cases. UlpOf::value goes without this allowance.
//
// Where a kernel multiplies in bf16, the plain implementation rounds the same operands. A rounding is off by at most
// 2^-9 of its number, a product of two by 2^-8: so 2^-8 of the size takes the place of these ulp.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "reference/attention.h"
#include "reference/sized.h"
#include "support/guarded.h"

namespace phasor {

enum class UlpOf { value, size };

// What one tensor should hold, and how far from it the plain float implementation is.
template <int Rank>
struct Expected {
  reference::Array<reference::Sized, Rank> exact;
  UlpOf ulp_of = UlpOf::size;
  double plain_error = 0;
  bool rounds_operands = false;  // to bf16

  Expected() = default;
  Expected(reference::Array<reference::Sized, Rank> numbers, const reference::Array<float, Rank>& plain,
           UlpOf what = UlpOf::size)
      : exact(std::move(numbers)), ulp_of(what) {
    for (std::size_t i = 0; i < exact.values.size(); i++) {
      const double value = exact.values[i].value;
      if (std::isfinite(value)) plain_error = std::max(plain_error, std::fabs(value - plain.values[i]));
    }
  }

  // The same for a kernel that multiplies in bf16.
  Expected rounding_operands(const reference::Array<float, Rank>& plain) const {
    Expected result(exact, plain, ulp_of);
    result.rounds_operands = true;
    return result;
  }

  // How far the numbers of the row that begins at `first` may be off.
  double allowed(std::int64_t first) const {
    double largest = 0;
    for (std::int64_t i = first; i < first + exact.shape.back(); i++)
      largest = std::max(largest, ulps_of(exact.values[static_cast<std::size_t>(i)]));
    return 2 * plain_error + 0x1p-23 * largest;
  }

 private:
  // What one ulp is taken of.
  double ulps_of(const reference::Sized& number) const {
    if (!std::isfinite(number.value)) return 0;
    if (rounds_operands) return 0x1p15 * number.size;
    return std::max(4 * std::fabs(number.value), ulp_of == UlpOf::size ? 2 * number.size : 0.0);
  }
};

inline double half_ulp(float, double) { return 0; }  // arithmetic is float: part of the 4 ulp
inline double half_ulp(bf16, double value) { return std::exp2(std::max(std::floor(std::log2(value)), -126.0) - 8); }
inline double half_ulp(f16, double value) { return std::exp2(std::max(std::floor(std::log2(value)), -14.0) - 11); }

template <class T, int Rank>
void expect_obeys_error_rule(const char* name, const Guarded<T, Rank>& result, const Expected<Rank>& expected) {
  result.expect_guards(name);
  ASSERT_EQ(result.view.shape, expected.exact.shape) << name;
  std::int64_t i = 0;
  double row_allowed = 0, worst = 1;
  std::ostringstream where;
  result.for_each([&](const T& element) {
    if (i % expected.exact.shape.back() == 0) row_allowed = expected.allowed(i);
    const double given = static_cast<float>(element),
                 value = expected.exact.values[static_cast<std::size_t>(i++)].value;
    if (given == value) return;
    const double allowed = row_allowed + half_ulp(T(), std::fabs(value) + row_allowed);
    const double excess = std::fabs(given - value) / allowed;
    if (excess <= worst) return;  // false for NaN
    worst = std::isnan(excess) ? INFINITY : excess;
    where.str("");
    where << "element " << i - 1 << " of " << shape_text(result.view.shape) << " is " << given << ", expected " << value
          << ", error " << given - value << ", allowed " << allowed << " (plain float " << expected.plain_error << ")";
  });
  EXPECT_EQ(worst, 1) << name << ": " << where.str();
}

// A weight of a masked or dropped key, the result of a query that sees nothing, the gradient of a value that nobody
// sees: these are 0, not nearly 0.
template <class T, int Rank>
void expect_exact_zeros(const char* name, const Guarded<T, Rank>& result, const Expected<Rank>& expected) {
  std::size_t i = 0, wrong = 0;
  result.for_each([&](const T& element) {
    if (expected.exact.values[i++].size == 0 && static_cast<float>(element) != 0) wrong++;
  });
  EXPECT_EQ(wrong, 0u) << name << ": numbers that should be exactly 0";
}

}  // namespace phasor
