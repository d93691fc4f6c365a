// A number that knows how large it would be if nothing had cancelled: a Real for the references.
//
// Sums of numbers of either sign come out small although their terms, and so their rounding errors, are large; and the
// rounding of a large score is multiplied by exp(score). `size` follows both: it is the magnitude of an input, adds up
// in sums, and passes through a function as an error would. A float implementation's error is some ulp of the size,
// however small the value.
#pragma once

#include <cmath>

namespace phasor::reference {

struct Sized {
  double value = 0, size = 0;

  Sized() = default;
  Sized(double input) : value(input), size(std::fabs(input)) {}
  Sized(double result, double result_size) : value(result), size(result_size) {}

  Sized& operator+=(const Sized& other) { return *this = {value + other.value, size + other.size}; }
  Sized& operator*=(const Sized& other);
};

inline Sized operator-(const Sized& a) { return {-a.value, a.size}; }
inline Sized operator+(const Sized& a, const Sized& b) { return {a.value + b.value, a.size + b.size}; }
inline Sized operator-(const Sized& a, const Sized& b) { return {a.value - b.value, a.size + b.size}; }
// The relative sizes add up; that of an input is 1.
inline Sized operator*(const Sized& a, const Sized& b) {
  const double product = a.value * b.value;
  return {product, std::fabs(a.value) * b.size + a.size * std::fabs(b.value) - std::fabs(product)};
}
inline Sized operator/(const Sized& a, const Sized& b) {
  const double quotient = a.value / b.value;
  return {quotient, (a.size + std::fabs(quotient) * b.size) / std::fabs(b.value) - std::fabs(quotient)};
}
inline Sized& Sized::operator*=(const Sized& other) { return *this = *this * other; }
inline Sized exp(const Sized& x) {
  const double result = std::exp(x.value);
  return {result, result * (1 + x.size)};
}
inline Sized log(const Sized& x) {
  const double result = std::log(x.value);
  return {result, std::fabs(result) + x.size / x.value};
}
inline Sized tanh(const Sized& x) {
  const double result = std::tanh(x.value);
  return {result, std::fabs(result) + (1 - result * result) * x.size};
}

inline bool operator<(const Sized& a, const Sized& b) { return a.value < b.value; }
inline bool operator>(const Sized& a, const Sized& b) { return a.value > b.value; }
inline bool operator==(const Sized& a, const Sized& b) { return a.value == b.value; }

}  // namespace phasor::reference
