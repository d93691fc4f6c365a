// The backward pass of attention in plain loops: derived by hand, proven by central differences of forward() in
// tests/attention/reference_test.cc.
//
// With P the weights, m the dropout factor and L the loss:
//   dL/dscore_j = P_j (m_j grad_out . v_j - grad_out . out + grad_lse)        the sink: the same with value 0
//   dL/dv_j     = sum over i of P_ij m_ij grad_out_i
#pragma once

#include "reference/attention.h"

namespace phasor::reference {

// Of a rotation's table: with (a, b) a pair before, (g, h) the gradient of the pair after the rotation.
template <class Real>
struct RotaryGradients {
  Array<Real, 4> cos, sin;

  RotaryGradients() = default;
  RotaryGradients(const Array<Real, 4>& x, const Array<Real, 4>& gradient, const Rotary<Real>& table)
      : cos(table.cos.shape), sin(table.sin.shape) {
    const std::int64_t pairs = table.cos.shape[3];
    const bool half = table.pairing == Pairing::half;
    for (std::int64_t b = 0; b < x.shape[0]; b++)
      for (std::int64_t n = 0; n < x.shape[1]; n++)
        for (std::int64_t t = 0; t < x.shape[2]; t++)
          for (std::int64_t i = 0; i < pairs; i++) {
            const std::int64_t first = half ? i : 2 * i, second = half ? i + pairs : 2 * i + 1;
            const Real a = x(b, n, t, first), c = x(b, n, t, second);
            const Real g = gradient(b, n, t, first), h = gradient(b, n, t, second);
            cos(b, n, t, i) += g * a + h * c;
            sin(b, n, t, i) += h * a - g * c;
          }
  }
};

template <class Real>
struct Gradients {
  Array<Real, 4> q, k, v;
  std::optional<Array<Real, 4>> mask;
  std::optional<Array<Real, 3>> key_bias, query_scale;
  std::optional<Array<Real, 2>> relative_bias;
  std::optional<Array<Real, 1>> alibi_slopes, sinks;
  std::optional<RotaryGradients<Real>> q_rotary, k_rotary;
};

// What backward reads besides the problem. As in the library `out` is given, not computed again: a test can give the
// one that was stored, rounded to 16 bits, so that this rounding is no error of the kernel. The weights are computed
// again, from the scores alone: what the log-sum-exp loses when it is stored as a float is an error of the kernel.
template <class Real>
struct Given {
  Array<Real, 4> out;
  Array<Real, 4> grad_out;
  std::optional<Array<Real, 3>> grad_lse;
};

template <class Real, int Rank>
std::optional<Array<Real, Rank>> zeros_like(const std::optional<Array<Real, Rank>>& other) {
  if (!other) return std::nullopt;
  return Array<Real, Rank>(other->shape);
}

template <class Real>
Real dot(const Real* a, const Real* b, std::int64_t count) {
  Real sum = 0;
  for (std::int64_t i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

template <class Real>
void add_multiple(Real factor, const Real* from, std::int64_t count, Real* to) {
  for (std::int64_t i = 0; i < count; i++) to[i] += factor * from[i];
}

// One query of one head; q and k are rotated, and so are their gradients.
template <class Real>
void backward_row(const Problem<Real>& p, const Array<Real, 4>& q, const Array<Real, 4>& k, const Given<Real>& given,
                  std::int64_t b, std::int64_t h, std::int64_t i, Gradients<Real>& gradients) {
  const std::vector<Seen<Real>> seen_by_row = seen_keys(p, q, k, b, h, i);
  const RowSoftmax<Real> softmax(p, seen_by_row, h);
  if (softmax.is_empty()) return;
  const Real* grad_out = given.grad_out.row(b, h, i);
  const std::int64_t group = p.group(h);
  Real common = -dot(grad_out, given.out.row(b, h, i), p.value_width());
  if (given.grad_lse) common += (*given.grad_lse)(b, h, i);
  if (p.sinks) (*gradients.sinks)(h) += softmax.weight((*p.sinks)(h)) * common;
  for (const Seen<Real>& seen : seen_by_row) {
    const Real weight = softmax.weight(seen.score), factor = dropout_factor(p, b, h, i, seen.key);
    const Real by_weight = factor * dot(grad_out, p.v.row(b, group, seen.key), p.value_width());
    const Real by_score = weight * (by_weight + common);
    add_multiple(rounded(p.narrow, weight * factor), grad_out, p.value_width(), gradients.v.row(b, group, seen.key));
    const Real by_product = rounded(p.narrow, by_score * seen.slope);
    add_multiple(by_product, k.row(b, group, seen.key), p.width(), gradients.q.row(b, h, i));
    add_multiple(by_product, q.row(b, h, i), p.width(), gradients.k.row(b, group, seen.key));
    if (p.query_scale) (*gradients.query_scale)(b, h, i) += by_score * seen.by_query_scale;
    if (p.mask) (*gradients.mask)(b, h, i, seen.key) += by_score;
    if (p.key_bias) (*gradients.key_bias)(b, bias_head(p, h), seen.key) += by_score;
    if (p.relative_bias) (*gradients.relative_bias)(h, bias_column(p, seen.distance)) += by_score;
    if (p.alibi_slopes) (*gradients.alibi_slopes)(h) += -by_score * Real(static_cast<float>(std::abs(seen.distance)));
  }
}

template <class Real>
Gradients<Real> backward(const Problem<Real>& p, const Given<Real>& given) {
  const Array<Real, 4> q = operand(p, p.q, p.q_rotary), k = operand(p, p.k, p.k_rotary);
  Gradients<Real> gradients{Array<Real, 4>(p.q.shape),
                            Array<Real, 4>(p.k.shape),
                            Array<Real, 4>(p.v.shape),
                            zeros_like(p.mask),
                            zeros_like(p.key_bias),
                            zeros_like(p.query_scale),
                            zeros_like(p.relative_bias),
                            zeros_like(p.alibi_slopes),
                            zeros_like(p.sinks),
                            {},
                            {}};
  for (std::int64_t b = 0; b < p.batch(); b++)
    for (std::int64_t h = 0; h < p.heads(); h++)
      for (std::int64_t i = 0; i < p.queries(); i++) backward_row(p, q, k, given, b, h, i, gradients);
  if (p.q_rotary) gradients.q_rotary.emplace(p.q, gradients.q, *p.q_rotary);
  if (p.k_rotary) gradients.k_rotary.emplace(p.k, gradients.k, *p.k_rotary);
  rotate(gradients.q, p.q_rotary, true);
  rotate(gradients.k, p.k_rotary, true);
  return gradients;
}

}  // namespace phasor::reference
