// The layers that are not attention, in plain double loops: the specification. Matrices are by rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace phasor::reference {

using Values = std::vector<double>;

struct Matrix {
  std::size_t rows = 0, columns = 0;
  Values values;

  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c, 0.0) {}
  Matrix(std::size_t r, std::size_t c, Values v) : rows(r), columns(c), values(std::move(v)) {}
  double& operator()(std::size_t r, std::size_t c) { return values[r * columns + c]; }
  double operator()(std::size_t r, std::size_t c) const { return values[r * columns + c]; }
};

// x W^T + b; W is [outputs, inputs], b may be empty.
inline Matrix linear(const Matrix& x, const Values& weight, const Values& bias, std::size_t outputs) {
  Matrix y(x.rows, outputs);
  for (std::size_t n = 0; n < x.rows; n++)
    for (std::size_t o = 0; o < outputs; o++) {
      double sum = bias.empty() ? 0.0 : bias[o];
      for (std::size_t i = 0; i < x.columns; i++) sum += x(n, i) * weight[o * x.columns + i];
      y(n, o) = sum;
    }
  return y;
}

inline Matrix rms_norm(const Matrix& x, const Values& weight, double eps) {
  Matrix y(x.rows, x.columns);
  for (std::size_t n = 0; n < x.rows; n++) {
    double squares = 0;
    for (std::size_t c = 0; c < x.columns; c++) squares += x(n, c) * x(n, c);
    const double rms = std::sqrt(squares / static_cast<double>(x.columns) + eps);
    for (std::size_t c = 0; c < x.columns; c++) y(n, c) = x(n, c) / rms * weight[c];
  }
  return y;
}

inline Matrix layer_norm(const Matrix& x, const Values& weight, const Values& bias, double eps) {
  Matrix centred = x;
  for (std::size_t n = 0; n < x.rows; n++) {
    double mean = 0;
    for (std::size_t c = 0; c < x.columns; c++) mean += x(n, c) / static_cast<double>(x.columns);
    for (std::size_t c = 0; c < x.columns; c++) centred(n, c) -= mean;
  }
  Matrix y = rms_norm(centred, weight, eps);
  for (std::size_t n = 0; n < x.rows; n++)
    for (std::size_t c = 0; c < x.columns; c++) y(n, c) += bias[c];
  return y;
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }
inline double gelu_erf(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
// (1 + tanh(u)) / 2 = 1 / (1 + e^-2u), which keeps its digits where it is small.
inline double gelu_tanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

template <class Function>
Matrix each(Matrix x, const Function& function) {
  for (double& value : x.values) value = function(value);
  return x;
}

inline Matrix swiglu(const Matrix& x, const Values& gate, const Values& up, const Values& down) {
  const std::size_t hidden = gate.size() / x.columns;
  Matrix act = each(linear(x, gate, {}, hidden), silu);
  const Matrix factor = linear(x, up, {}, hidden);
  for (std::size_t i = 0; i < act.values.size(); i++) act.values[i] *= factor.values[i];
  return linear(act, down, {}, x.columns);
}

// The mean over rows whose target is not -100.
inline double cross_entropy(const Matrix& logits, const std::vector<std::int32_t>& targets) {
  double sum = 0, counted = 0;
  for (std::size_t n = 0; n < logits.rows; n++) {
    if (targets[n] == -100) continue;
    double largest = logits(n, 0), exponentials = 0;
    for (std::size_t c = 0; c < logits.columns; c++) largest = std::max(largest, logits(n, c));
    for (std::size_t c = 0; c < logits.columns; c++) exponentials += std::exp(logits(n, c) - largest);
    sum += std::log(exponentials) + largest - logits(n, static_cast<std::size_t>(targets[n]));
    counted++;
  }
  return counted > 0 ? sum / counted : 0.0;
}

}  // namespace phasor::reference
