// Random calls of W2 attention: those of random_case.h without dropout, and a tau.
#pragma once

#include "attention/random_case.h"
#include "phasor/attention/w2.h"
#include "reference/w2.h"

namespace phasor {

struct W2Case : Case {
  double tau = 1.0;
};

inline W2Case random_w2_case(std::uint32_t seed, std::int64_t most_work) {
  Draw draw(seed ^ 0x5eedu);
  W2Case c;
  static_cast<Case&>(c) = random_case(seed, most_work);
  c.tau = draw.pick({1.0, 8.0, 64.0, -20.0, 0.3});
  c.dropout = 0;
  c.width = std::min<std::int64_t>(c.width, c.softcap > 0 || c.sinks || c.query_scale || c.key_bias ? 255 : 256);
  c.value_width = std::min<std::int64_t>(c.value_width, 256);
  for (RotaryCase* rotary : {&c.q_rotary, &c.k_rotary}) rotary->pairs = std::min(rotary->pairs, c.width / 2);
  return c;
}

template <class T>
struct W2Inputs {
  Inputs<T> means, log_sigmas;  // the options are those of `means`

  explicit W2Inputs(const W2Case& c) : means(c), log_sigmas(other(c)), tau(c.tau) {}

  double tau;
  const AttentionOptions& options() const { return means.options; }
  W2Streams<const T> q() const { return {means.q.view, log_sigmas.q.view}; }
  W2Streams<const T> k() const { return {means.k.view, log_sigmas.k.view}; }
  W2Streams<const T> v() const { return {means.v.view, log_sigmas.v.view}; }
  W2Streams<const T> grad_out() const { return {means.grad_out.view, log_sigmas.grad_out.view}; }

  template <class Real>
  reference::W2Problem<Real> problem() const {
    return reference::w2_problem<Real, T>(q(), k(), v(), tau, options());
  }

 private:
  static Case other(Case c) {
    c.seed += 1'000'000;
    c.deviation = 1;  // e^(4/2) would make one sigma count more than all others
    return c;
  }
};

template <class T>
struct W2Outputs {
  Guarded<T, 4> mu, log_sigma;
  Guarded<float, 3> lse;
  Guarded<float, 4> softmax, weights;

  explicit W2Outputs(const Case& c)
      : mu({c.batch, c.heads, c.queries, c.value_width}, c.layout),
        log_sigma({c.batch, c.heads, c.queries, c.value_width}, c.layout),
        lse({c.batch, c.heads, c.queries}, c.lse_layout),
        softmax({c.batch, c.heads, c.queries, 2}, c.lse_layout),
        weights({c.batch, c.heads, c.queries, c.keys}, c.layout) {}

  void run(const W2Inputs<T>& inputs) {
    w2_attention_forward(inputs.q(), inputs.k(), inputs.v(), inputs.tau,
                         {{mu.view, log_sigma.view}, lse.view, softmax.view, weights.view}, inputs.options());
  }
  bool same_bits(const W2Outputs& other) const {
    return mu.same_bits(other.mu) && log_sigma.same_bits(other.log_sigma) && lse.same_bits(other.lse) &&
           softmax.same_bits(other.softmax) && weights.same_bits(other.weights);
  }
};

}  // namespace phasor
