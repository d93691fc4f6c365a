// What the expansion of squared distances costs in float arithmetic. The definition takes differences first, so that
// rounding is relative to the distance; the kernel's is relative to |q~|^2 and |k~|^2, where ~ is "mean key
// subtracted". In units of 2^-24 M, M = t (|q~| + |k~|)^2, a score is off by
//
//   sqrt(3 n)  n = 2D multiply-adds, each rounding a partial sum that is below M: random roundings have a deviation of
//              sqrt(n / 3), and this is three of them
//   2          q~ and k~ themselves are rounded: 2 |q - k| (|q~| + |k~|)
//   6          2t log2(e) times q~; the key bias, log2(e) and their product; the log-sum-exp in base 2 and the natural
//
//   8 t (|q_sigma| + |k_sigma|)^2 / M   sigma = exp(log_sigma / 2) is right to 2 ulp, 4 units: 2 |q - k| times it
//
// Where distances are small beside the biases, it is these that are rounded: 2^-24 of their sizes when they are added
// to the rest, multiplied by log2(e), which is rounded too, and in the log-sum-exp, in base 2 and the natural: 5.
//
// To be multiplied in bf16, q~ and k~ are rounded, their norms included: each number x by at most 2^-9 (|x| + |mean|),
// whichever middle the kernel has subtracted. With e the sum of both roundings, a score is off by at most
// t (2 |q - k| . e + e . e).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "reference/w2.h"

namespace phasor {

// Both streams of x side by side, the means rotated, less the mean key of the batch entry and key head.
struct Centred {
  reference::Gaussians<double> of_q, of_k;
  reference::Array<double, 4> q, k, middle;

  explicit Centred(const reference::W2Problem<double>& w)
      : of_q(w.means.q, w.means.q_rotary, w.q_log_sigma), of_k(w.means.k, w.means.k_rotary, w.k_log_sigma) {
    q = joined(of_q.mu, of_q.sigma);
    k = joined(of_k.mu, of_k.sigma);
    middle = reference::Array<double, 4>({k.shape[0], k.shape[1], 1, k.shape[3]});
    const std::int64_t group = w.means.heads() / k.shape[1];
    for (std::int64_t b = 0; b < k.shape[0]; b++)
      for (std::int64_t g = 0; g < k.shape[1]; g++)
        for (std::int64_t c = 0; c < k.shape[3]; c++) {
          const double mean = mean_key(w.means, b, g, c);
          middle(b, g, 0, c) = mean;
          for (std::int64_t j = 0; j < k.shape[2]; j++) k(b, g, j, c) -= mean;
          for (std::int64_t h = g * group; h < (g + 1) * group; h++)
            for (std::int64_t i = 0; i < q.shape[2]; i++) q(b, h, i, c) -= mean;
        }
  }

  // How far the kernel may be off in a score.
  double score_error(const reference::W2Problem<double>& w, std::int64_t b, std::int64_t h, std::int64_t i,
                     std::int64_t j) const {
    const double t = factor(w, b, h, i), n = static_cast<double>(q.shape[3]);
    const std::int64_t g = w.means.group(h);
    const double sum = norm(q.row(b, h, i), q.shape[3]) + norm(k.row(b, g, j), q.shape[3]);
    const double sigmas =
        norm(of_q.sigma.row(b, h, i), w.means.width()) + norm(of_k.sigma.row(b, g, j), w.means.width());
    return 0x1p-24 *
           ((std::sqrt(3 * n) + 8) * t * sum * sum + 8 * t * sigmas * sigmas + 5 * biases(w.means, b, h, i, j));
  }

  // The same for what rounding q~ and k~ to bf16 adds.
  double rounding_error(const reference::W2Problem<double>& w, std::int64_t b, std::int64_t h, std::int64_t i,
                        std::int64_t j) const {
    const std::int64_t g = w.means.group(h);
    const double *query = q.row(b, h, i), *key = k.row(b, g, j), *mean = middle.row(b, g, 0);
    double sum = 0;
    for (std::int64_t c = 0; c < q.shape[3]; c++) {
      const double e = 0x1p-9 * (std::fabs(query[c]) + std::fabs(key[c]) + 4 * std::fabs(mean[c]));
      sum += 2 * std::fabs(query[c] - key[c]) * e + e * e;
    }
    return factor(w, b, h, i) * sum;
  }

 private:
  // What squared distances are multiplied by.
  static double factor(const reference::W2Problem<double>& w, std::int64_t b, std::int64_t h, std::int64_t i) {
    const double of_query = w.means.query_scale ? (*w.means.query_scale)(b, h, i) : 1.0;
    return std::fabs(w.means.scale * of_query) / (std::fabs(w.tau) + kTauEps);
  }

  using Rows = reference::Array<double, 4>;

  static double biases(const reference::Problem<double>& p, std::int64_t b, std::int64_t h, std::int64_t i,
                       std::int64_t j) {
    const auto finite = [](double x) { return std::isfinite(x) ? std::fabs(x) : 0.0; };
    double sum = p.key_bias ? finite((*p.key_bias)(b, reference::bias_head(p, h), j)) : 0.0;
    if (p.mask) sum += finite((*p.mask)(b, h, i, j));
    if (p.alibi_slopes) sum += std::fabs((*p.alibi_slopes)(h)) * static_cast<double>(farthest(p));
    if (p.relative_bias) {
      const double* row = p.relative_bias->row(h);
      sum += std::fabs(*std::max_element(row, row + p.relative_bias->shape[1],
                                         [](double x, double y) { return std::fabs(x) < std::fabs(y); }));
    }
    return sum;
  }
  // The largest distance of a query and a key.
  static std::int64_t farthest(const reference::Problem<double>& p) {
    std::int64_t most = 0;
    for (const reference::Sequence& s : p.sequences)
      most = std::max({most, std::abs(s.offset), std::abs(s.offset + s.queries), std::abs(s.keys - s.offset),
                       std::abs(s.keys - s.offset - s.queries)});
    return most;
  }
  static double norm(const double* row, std::int64_t channels) {
    double sum = 0;
    for (std::int64_t c = 0; c < channels; c++) sum += row[c] * row[c];
    return std::sqrt(sum);
  }
  static Rows joined(const Rows& mean, const Rows& sigma) {
    Rows result({mean.shape[0], mean.shape[1], mean.shape[2], 2 * mean.shape[3]});
    for (std::int64_t b = 0; b < mean.shape[0]; b++)
      for (std::int64_t h = 0; h < mean.shape[1]; h++)
        for (std::int64_t i = 0; i < mean.shape[2]; i++) {
          std::copy_n(mean.row(b, h, i), mean.shape[3], result.row(b, h, i));
          std::copy_n(sigma.row(b, h, i), mean.shape[3], result.row(b, h, i) + mean.shape[3]);
        }
    return result;
  }
  double mean_key(const reference::Problem<double>& p, std::int64_t b, std::int64_t g, std::int64_t c) const {
    double sum = 0;
    std::int64_t count = 0;
    for (std::size_t s = 0; s < p.sequences.size(); s++)
      for (std::int64_t j = 0; (p.ragged || static_cast<std::int64_t>(s) == b) && j < p.sequences[s].visible; j++) {
        sum += k(b, g, p.sequences[s].first_key + j, c);
        count++;
      }
    return count == 0 ? 0 : sum / static_cast<double>(count);
  }
};

}  // namespace phasor
