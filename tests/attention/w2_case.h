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
  c.dropout = {};
  c.width = std::min<std::int64_t>(c.width, c.softcap > 0 || c.sinks ? 255 : 256);
  c.value_width = std::min<std::int64_t>(c.value_width, 256);
  for (RotaryCase* rotary : {&c.rotate_q, &c.rotate_k}) rotary->pairs = std::min(rotary->pairs, c.width / 2);
  return c;
}

template <class T>
struct W2Inputs {
  Inputs<T> means, spreads;  // the options are those of `means`
  Guarded<float, 4> q_sigma, k_sigma;

  explicit W2Inputs(const W2Case& c)
      : means(c),
        spreads(other(c)),
        q_sigma(means.q.view.shape, c.layout),
        k_sigma(means.k.view.shape, c.layout),
        tau(c.tau) {
    read_sigma(spreads.q, q_sigma);
    read_sigma(spreads.k, k_sigma);
  }

  double tau;
  const AttentionOptions& options() const { return means.options; }
  W2Gaussians<const T> q() const { return {means.q.view, q_sigma.view}; }
  W2Gaussians<const T> k() const { return {means.k.view, k_sigma.view}; }
  W2Streams<const T> v() const { return {means.v.view, spreads.v.view}; }
  W2Streams<const T> grad_out() const { return {means.grad_out.view, spreads.grad_out.view}; }

  template <class Real>
  reference::W2Problem<Real> problem() const {
    return reference::w2_problem<Real, T>(q(), k(), v(), tau, options());
  }

 private:
  static Case other(Case c) {
    c.seed += 1'000'000;
    return c;
  }
  // Not numbers of T: what 16 bits cannot hold has to count.
  static void read_sigma(const Guarded<T, 4>& from, const Guarded<float, 4>& to) {
    std::vector<float> values;
    from.for_each([&](const T& x) { values.push_back(1.001f * std::fabs(static_cast<float>(x))); });
    std::size_t i = 0;
    to.for_each([&](float& x) { x = values[i++]; });
  }
};

template <class T>
struct W2Outputs {
  Guarded<T, 4> mean, spread;
  Guarded<float, 3> lse;
  Guarded<float, 4> weights;

  explicit W2Outputs(const Case& c)
      : mean({c.batch, c.heads, c.queries, c.value_width}, c.layout),
        spread({c.batch, c.heads, c.queries, c.value_width}, c.layout),
        lse({c.batch, c.heads, c.queries}, c.lse_layout),
        weights({c.batch, c.heads, c.queries, c.keys}, c.layout) {}

  void run(const W2Inputs<T>& inputs) {
    w2_attention_forward(inputs.q(), inputs.k(), inputs.v(), inputs.tau,
                         {{mean.view, spread.view}, lse.view, weights.view}, inputs.options());
  }
  bool same_bits(const W2Outputs& other) const {
    return mean.same_bits(other.mean) && spread.same_bits(other.spread) && lse.same_bits(other.lse) &&
           weights.same_bits(other.weights);
  }
};

}  // namespace phasor
