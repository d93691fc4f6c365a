// Measures what docs/numerics.md says about Wasserstein-2 scores: how far they are from the exact ones in the expanded
// form, with and without the mean key subtracted, and in the direct form. Prints the table; not run by ctest.
#include <cmath>
#include <cstdio>
#include <vector>

#include "phasor/attention/w2.h"
#include "phasor/core/random.h"

namespace phasor {
namespace {

constexpr std::int64_t kTokens = 2048, kWidth = 64;

// Sigma both in double, as log_sigma has it, and rounded to float.
struct Streams {
  Tensor<float, 4> mu, log_sigma;
  Streams() : mu({1, 1, kTokens, kWidth}), log_sigma({1, 1, kTokens, kWidth}) {}
  W2Streams<const float> in() const { return {mu.view(), log_sigma.view()}; }
  double exact(std::int64_t token, std::int64_t c) const {
    return c < kWidth ? mu(0, 0, token, c) : std::exp(static_cast<double>(log_sigma(0, 0, token, c - kWidth)) / 2);
  }
  float at(std::int64_t token, std::int64_t c) const { return static_cast<float>(exact(token, c)); }
};

struct Setting {
  double tau;
  float deviation, offset;
};

// Keys: means are normal around the offset, sigmas uniform, both with this deviation. Query i is key i and a difference
// of deviation 0.05 sqrt(tau) in each channel, so that its score with key i is about -0.3, the size at which a key's
// weight matters.
void fill(const Setting& s, Streams& q, Streams& k) {
  const auto gap = static_cast<float>(0.05 * std::sqrt(s.tau));
  Philox(1, 0).fill_normal(k.mu, s.offset, s.deviation);
  Philox(1, 1).fill_uniform(k.log_sigma, 0.05f * s.deviation, (0.05f + std::sqrt(12.0f)) * s.deviation);
  Philox(2, 0).fill_normal(q.mu, 0.0f, gap);
  Philox(2, 1).fill_normal(q.log_sigma, 0.0f, gap);
  for (std::int64_t i = 0; i < q.mu.size(); i++) {
    q.mu.data()[i] += k.mu.data()[i];
    float &to_q = q.log_sigma.data()[i], &to_k = k.log_sigma.data()[i];  // sigmas so far
    to_q = 2 * std::log(std::fabs(to_q + to_k));
    to_k = 2 * std::log(to_k);
  }
}

// The largest error of score(i, i). Each query sees only its own key, so its log-sum-exp is the score.
struct Errors {
  double centred = 0, plain = 0, direct = 0;
};

Tensor<float, 3> scores_without_mean_key(const Streams& q, const Streams& k, double t) {
  Tensor<float, 4> joined_q({1, 1, kTokens, 2 * kWidth}), joined_k(joined_q.shape()), out({1, 1, kTokens, kWidth});
  Tensor<float, 3> bias({1, 1, kTokens}), lse({1, 1, kTokens});
  std::vector<double> norms(kTokens);
  for (std::int64_t i = 0; i < kTokens; i++) {
    double key_norm = 0;
    for (std::int64_t c = 0; c < 2 * kWidth; c++) {
      const float a = joined_q(0, 0, i, c) = q.at(i, c), b = joined_k(0, 0, i, c) = k.at(i, c);
      norms[static_cast<std::size_t>(i)] += static_cast<double>(a) * a;
      key_norm += static_cast<double>(b) * b;
    }
    bias(0, 0, i) = static_cast<float>(-t * key_norm);
  }
  const AttentionOptions options{.scale = 2 * t, .window = Window(1, 1), .key_bias = std::as_const(bias).view()};
  attention_forward(joined_q.view(), joined_k.view(), k.mu.view(), {.out = out.view(), .lse = lse.view()}, options);
  for (std::int64_t i = 0; i < kTokens; i++)
    lse(0, 0, i) = static_cast<float>(lse(0, 0, i) - t * norms[static_cast<std::size_t>(i)]);
  return lse;
}

Errors measure(const Setting& s) {
  Streams q, k, out;
  fill(s, q, k);
  const double t = 1 / (s.tau + kTauEps);
  Tensor<float, 3> centred({1, 1, kTokens});
  const AttentionOptions options{.window = Window(1, 1)};
  w2_attention_forward(q.in(), k.in(), k.in(), s.tau,
                       {.out = {out.mu.view(), out.log_sigma.view()}, .lse = centred.view()}, options);
  const Tensor<float, 3> plain = scores_without_mean_key(q, k, t);
  Errors worst;
  for (std::int64_t i = 0; i < kTokens; i++) {
    double exact = 0;
    float direct = 0;
    for (std::int64_t c = 0; c < 2 * kWidth; c++) {
      const float difference = q.at(i, c) - k.at(i, c);
      direct += difference * difference;
      exact -= t * std::pow(q.exact(i, c) - k.exact(i, c), 2);
    }
    direct *= static_cast<float>(-t);
    worst.centred = std::max(worst.centred, std::fabs(centred(0, 0, i) - exact));
    worst.plain = std::max(worst.plain, std::fabs(plain(0, 0, i) - exact));
    worst.direct = std::max(worst.direct, std::fabs(direct - exact));
  }
  return worst;
}

}  // namespace
}  // namespace phasor

int main() {
  std::puts(
      "| deviation | offset | tau | mean key subtracted | not subtracted | direct form |\n|---|---|---|---|---|---|");
  for (const float deviation : {1.0f, 4.0f})
    for (const float offset : {0.0f, 10.0f, 100.0f})
      for (const double tau : {1.0, 0.1, 0.05, 0.01}) {
        const auto [centred, plain, direct] = phasor::measure({tau, deviation, offset});
        std::printf("| %g | %g | %g | %.1e | %.1e | %.1e |\n", static_cast<double>(deviation),
                    static_cast<double>(offset), tau, centred, plain, direct);
      }
}
