// Wasserstein-2 attention in plain loops, by its definition: squared differences, no expansion and no mean key.
#pragma once

#include "phasor/attention/w2.h"
#include "reference/attention.h"

namespace phasor::reference {

// `means` has the mean streams and the options; its scale is 1 unless it was given.
template <class Real>
struct W2Problem {
  Problem<Real> means;
  Array<Real, 4> q_spread, k_spread, v_spread;
  Real tau = 1;
};

template <class Real, class T>
W2Problem<Real> w2_problem(const W2Gaussians<const T>& q, const W2Gaussians<const T>& k, const W2Streams<const T>& v,
                           double tau, const AttentionOptions& options) {
  W2Problem<Real> w{problem<Real, T>(q.mean, k.mean, v.mean, options), read<Real>(q.spread), read<Real>(k.spread),
                    read<Real>(v.spread), static_cast<Real>(tau)};
  w.means.scale = static_cast<Real>(options.scale.value_or(1.0));
  return w;
}

template <class Real>
struct W2Result {
  Result<Real> mean;  // and log-sum-exps, weights
  Array<Real, 4> spread;
};

template <class Real>
Real squared_distance(const Real* a, const Real* b, std::int64_t count) {
  Real sum = 0;
  for (std::int64_t c = 0; c < count; c++) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

// The score of a key that the query sees; q and k are the rotated means.
template <class Real>
Real w2_score(const W2Problem<Real>& w, const Array<Real, 4>& q, const Array<Real, 4>& k, std::int64_t b,
              std::int64_t h, std::int64_t i, std::int64_t key, std::int64_t distance) {
  const Problem<Real>& p = w.means;
  const std::int64_t g = p.group(h);
  const Real squares = squared_distance(q.row(b, h, i), k.row(b, g, key), p.width()) +
                       squared_distance(w.q_spread.row(b, h, i), w.k_spread.row(b, g, key), p.width());
  Real score = -p.scale * squares / (std::abs(w.tau) + static_cast<Real>(kTauEps));
  if (p.softcap > 0) score = p.softcap * tanh(score / p.softcap);
  if (p.key_bias) score += (*p.key_bias)(b, g, key);
  if (p.relative_bias) score += (*p.relative_bias)(h, bias_column(p, distance));
  if (p.mask) score += (*p.mask)(b, h, i, key);
  return score;
}

template <class Real>
void w2_row(const W2Problem<Real>& w, const Array<Real, 4>& q, const Array<Real, 4>& k, std::int64_t b, std::int64_t h,
            std::int64_t i, W2Result<Real>& result) {
  const Problem<Real>& p = w.means;
  std::vector<Seen<Real>> seen = seen_keys(p, q, k, b, h, i);  // these keys, with other scores
  for (Seen<Real>& s : seen) s.score = w2_score(w, q, k, b, h, i, s.key, s.distance);
  forward_row(p, seen, b, h, i, result.mean);
  for (const Seen<Real>& s : seen)
    for (std::int64_t e = 0; e < p.value_width(); e++)
      result.spread(b, h, i, e) += result.mean.weights(b, h, i, s.key) * w.v_spread(b, p.group(h), s.key, e);
}

template <class Real>
W2Result<Real> w2_forward(const W2Problem<Real>& w) {
  const Problem<Real>& p = w.means;
  Array<Real, 4> q = p.q, k = p.k;
  rotate(q, p.rotate_q, false);
  rotate(k, p.rotate_k, false);
  const Shape<3> rows{p.batch(), p.heads(), p.queries()};
  const Array<Real, 4> out({rows[0], rows[1], rows[2], p.value_width()});
  W2Result<Real> result{{out, Array<Real, 3>(rows), Array<Real, 4>({rows[0], rows[1], rows[2], p.keys()})}, out};
  for (std::int64_t b = 0; b < p.batch(); b++)
    for (std::int64_t h = 0; h < p.heads(); h++)
      for (std::int64_t i = 0; i < p.queries(); i++) w2_row(w, q, k, b, h, i, result);
  return result;
}

}  // namespace phasor::reference
