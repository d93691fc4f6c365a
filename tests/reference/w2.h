// Wasserstein-2 attention in plain loops, by its definition: squared differences, no expansion and no mean key.
#pragma once

#include "phasor/attention/w2.h"
#include "reference/attention.h"

namespace phasor::reference {

// `means` has the mean streams and the options; its scale is 1 unless it was given.
template <class Real>
struct W2Problem {
  Problem<Real> means;
  Array<Real, 4> q_log_sigma, k_log_sigma, v_log_sigma;  // logs of variances
  Real tau = 1;
};

template <class Real>
Array<Real, 4> sigma_of(Array<Real, 4> log_sigma) {
  for (Real& x : log_sigma.values) x = exp(x / 2);
  return log_sigma;
}

// Rotated means, and sigma.
template <class Real>
struct Gaussians {
  Array<Real, 4> mu, sigma;

  Gaussians(const Array<Real, 4>& means, const std::optional<Rotary<Real>>& rotation, const Array<Real, 4>& log_sigma)
      : mu(means), sigma(sigma_of(log_sigma)) {
    rotate(mu, rotation, false);
  }
};

template <class Real, class T>
W2Problem<Real> w2_problem(const W2Streams<const T>& q, const W2Streams<const T>& k, const W2Streams<const T>& v,
                           double tau, const AttentionOptions& options) {
  W2Problem<Real> w{problem<Real, T>(q.mu, k.mu, v.mu, options), read<Real>(q.log_sigma), read<Real>(k.log_sigma),
                    read<Real>(v.log_sigma), static_cast<Real>(tau)};
  w.means.scale = static_cast<Real>(options.scale.value_or(1.0));
  return w;
}

template <class Real>
struct W2Result {
  Result<Real> mu;  // and log-sum-exps, weights
  Array<Real, 4> log_sigma;
};

template <class Real>
Real squared_distance(const Real* a, const Real* b, std::int64_t count) {
  Real sum = 0;
  for (std::int64_t c = 0; c < count; c++) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

// The score of a key that the query sees.
template <class Real>
Real w2_score(const W2Problem<Real>& w, const Gaussians<Real>& q, const Gaussians<Real>& k, std::int64_t b,
              std::int64_t h, std::int64_t i, std::int64_t key, std::int64_t distance) {
  const Problem<Real>& p = w.means;
  const std::int64_t g = p.group(h);
  const Real squares = squared_distance(q.mu.row(b, h, i), k.mu.row(b, g, key), p.width()) +
                       squared_distance(q.sigma.row(b, h, i), k.sigma.row(b, g, key), p.width());
  Real score = -p.scale * squares / (std::abs(w.tau) + static_cast<Real>(kTauEps));
  if (p.query_scale) score *= (*p.query_scale)(b, h, i);
  if (p.softcap > 0) score = p.softcap * tanh(score / p.softcap);
  if (p.key_bias) score += (*p.key_bias)(b, bias_head(p, h), key);
  score += distance_bias(p, h, distance);
  if (p.mask) score += (*p.mask)(b, h, i, key);
  return score;
}

template <class Real>
void w2_row(const W2Problem<Real>& w, const Gaussians<Real>& q, const Gaussians<Real>& k, std::int64_t b,
            std::int64_t h, std::int64_t i, W2Result<Real>& result) {
  const Problem<Real>& p = w.means;
  std::vector<Seen<Real>> seen = seen_keys(p, q.mu, k.mu, b, h, i);  // these keys, with other scores
  for (Seen<Real>& s : seen) s.score = w2_score(w, q, k, b, h, i, s.key, s.distance);
  forward_row(p, seen, b, h, i, result.mu);
  for (const Seen<Real>& s : seen)
    for (std::int64_t e = 0; e < p.value_width(); e++)
      result.log_sigma(b, h, i, e) += result.mu.weights(b, h, i, s.key) * w.v_log_sigma(b, p.group(h), s.key, e);
}

template <class Real>
W2Result<Real> w2_forward(const W2Problem<Real>& w) {
  const Problem<Real>& p = w.means;
  const Gaussians<Real> q(p.q, p.q_rotary, w.q_log_sigma), k(p.k, p.k_rotary, w.k_log_sigma);
  const Shape<3> rows{p.batch(), p.heads(), p.queries()};
  const Array<Real, 4> out({rows[0], rows[1], rows[2], p.value_width()});
  W2Result<Real> result{{out, Array<Real, 3>(rows), Array<Real, 4>({rows[0], rows[1], rows[2], p.keys()})}, out};
  for (std::int64_t b = 0; b < p.batch(); b++)
    for (std::int64_t h = 0; h < p.heads(); h++)
      for (std::int64_t i = 0; i < p.queries(); i++) w2_row(w, q, k, b, h, i, result);
  return result;
}

}  // namespace phasor::reference
