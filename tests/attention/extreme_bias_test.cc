// Biases that are large, common to all keys of a row, or infinite.
#include <cmath>
#include <functional>
#include <limits>

#include "attention/error_rule.h"
#include "attention/tensors.h"
#include "phasor/core/random.h"
#include "reference/attention_backward.h"
#include "support/every_target.h"

namespace phasor {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// A call whose results are judged by the error rule without its allowance for cancellation: a common number that
// softmax cancels must not cost more digits than it costs the plain float implementation.
class Judged {
 public:
  explicit Judged(const AttentionOptions& options) : options_(options) {}

  void run() {
    out_.reset(), q_.reset(), k_.reset(), v_.reset();
    attention_forward(t_.q.view(), t_.k.view(), t_.v.view(), {out_.view, t_.lse.view(), t_.softmax.view()}, options_);
    attention_backward(t_.q.view(), t_.k.view(), t_.v.view(), {out_.view, t_.softmax.view(), t_.grad_out.view(), {}},
                       {.q = q_.view, .k = k_.view, .v = v_.view}, options_);
  }

  void check() {
    const auto exact = results<reference::Sized>();
    const auto plain = results<float>();
    const auto expect = [](const char* name, const Guarded<float, 4>& given, const auto& right, const auto& rounded) {
      expect_obeys_error_rule(name, given, Expected<4>(right, rounded, UlpOf::value));
    };
    on_every_target([&] {
      run();
      expect("out", out_, exact.out, plain.out);
      expect("gradients.q", q_, exact.gradients.q, plain.gradients.q);
      expect("gradients.k", k_, exact.gradients.k, plain.gradients.k);
      expect("gradients.v", v_, exact.gradients.v, plain.gradients.v);
    });
  }

 private:
  template <class Real>
  struct Results {
    reference::Array<Real, 4> out;
    reference::Gradients<Real> gradients;
  };

  // Forward and backward in Real alone: nothing that the library computed is read.
  template <class Real>
  Results<Real> results() const {
    const auto problem = reference::problem<Real, float>(t_.q.view(), t_.k.view(), t_.v.view(), options_);
    const auto out = reference::forward(problem).out;
    return {out, reference::backward(problem, {out, reference::read<Real>(t_.grad_out.view()), {}})};
  }

  static constexpr std::int64_t kHeads = 4, kQueries = 40, kKeys = 150, kWidth = 64;
  Tensors t_{
      {.heads = kHeads, .groups = kHeads, .queries = kQueries, .keys = kKeys, .width = kWidth, .value_width = kWidth}};
  AttentionOptions options_;
  Guarded<float, 4> out_{{1, kHeads, kQueries, kWidth}}, q_{{1, kHeads, kQueries, kWidth}},
      k_{{1, kHeads, kKeys, kWidth}}, v_{{1, kHeads, kKeys, kWidth}};
};

// ALiBi on keys that are all far behind the queries, as in a window of old keys.
TEST(ExtremeBias, AlibiFarBack) {
  for (const std::int64_t distance : {2048, 20000, 131072}) {
    SCOPED_TRACE(distance);
    constexpr std::int64_t kSpan = 190;  // distances from -distance - 39 to -distance + 150
    Tensor<float, 2> table({4, kSpan});
    for (std::int64_t h = 0; h < 4; h++)
      for (std::int64_t x = 0; x < kSpan; x++)
        table(h, x) = std::exp2(-2.0f * static_cast<float>(h + 1)) * static_cast<float>(x - 39 - distance);
    const std::int64_t offset[] = {distance};
    AttentionOptions options{.query_offsets = offset};
    options.relative_bias = RelativeBiasView(std::as_const(table).view(), -39 - distance);
    Judged(options).check();
  }
}

// BLOOM adds slope * position to the score of a key.
TEST(ExtremeBias, KeyBiasByPosition) {
  for (const float first : {1000.0f, 30000.0f}) {
    SCOPED_TRACE(first);
    Tensor<float, 3> bias({1, 4, 150});
    for (std::int64_t h = 0; h < 4; h++)
      for (std::int64_t j = 0; j < 150; j++)
        bias(0, h, j) = std::exp2(-2.0f * static_cast<float>(h + 1)) * (first + static_cast<float>(j));
    Judged({.causal = true, .key_bias = std::as_const(bias).view()}).check();
  }
}

TEST(ExtremeBias, CommonKeyBias) {
  for (const float common : {-100.0f, 100.0f, -5000.0f}) {
    SCOPED_TRACE(common);
    Tensor<float, 3> bias({1, 1, 150});
    std::fill(bias.begin(), bias.end(), common);
    Judged({.key_bias = std::as_const(bias).view()}).check();
  }
}

// A learned bias by distance, as T5 has it, that has moved as a whole.
TEST(ExtremeBias, CommonBiasByDistance) {
  Tensor<float, 2> table({4, 64});
  Philox(9).fill_normal(table);
  for (float& x : table) x += 100.0f;
  AttentionOptions options;
  options.relative_bias = RelativeBiasView(std::as_const(table).view(), -32);
  Judged(options).check();
}

TEST(ExtremeBias, CommonMask) {
  for (const float common : {-100.0f, -1e4f, -1e9f, std::numeric_limits<float>::lowest()}) {
    SCOPED_TRACE(common);
    Tensor<float, 4> mask({1, 1, 40, 150});
    std::fill(mask.begin(), mask.end(), common);
    Judged({.mask = std::as_const(mask).view()}).check();
  }
}

// A query that sees one key gives it the weight 1, and the gradients of its score are exactly 0.
TEST(ExtremeBias, OneKeyInSight) {
  Tensor<bool, 4> visible({1, 1, 40, 150});
  for (std::int64_t i = 0; i < 40; i++) visible(0, 0, i, 3 * i) = true;
  for (const float common : {0.0f, 40.0f, -5000.0f}) {
    SCOPED_TRACE(common);
    Tensor<float, 3> bias({1, 1, 150});
    std::fill(bias.begin(), bias.end(), common);
    Judged({.mask = std::as_const(visible).view(), .key_bias = std::as_const(bias).view()}).check();
  }
}

// The gradients of a row add up to that of all its weights, 1, also where its keys all carry the same large bias.
TEST(ExtremeBias, WeightsOfTheBackwardPassAddUpToOne) {
  for (const float common : {-1e9f, std::numeric_limits<float>::lowest()})
    on_every_target([&] {
      Tensors t({.queries = 40, .keys = 50, .value_width = 16});
      std::fill(t.grad_out.begin(), t.grad_out.end(), 1.0f);
      Tensor<float, 4> mask({1, 1, 40, 50});
      std::fill(mask.begin(), mask.end(), common);
      t.run({.mask = std::as_const(mask).view()});
      double sum = 0;
      for (const float g : t.grad_v) sum += g;
      EXPECT_NEAR(sum, 40 * 16, 1e-3);
    });
}

// A softmax of more keys than the call has, as when several calls share the keys of a sequence, is used as given.
TEST(ExtremeBias, GivenSoftmaxOfMoreKeysIsUsed) {
  Tensors t({.queries = 20, .keys = 50});
  Tensor<float, 3> bias({1, 1, 50});
  std::fill(bias.begin(), bias.end(), 500.0f);
  const AttentionOptions options{.key_bias = std::as_const(bias).view()};
  t.run(options);
  const Tensor<float, 4> whole = t.grad_v;
  for (std::int64_t i = 0; i < 20; i++) t.softmax(0, 0, i, 1) *= std::exp(1.0f);  // their weights add up to 1 / e
  t.backward(options);
  for (std::int64_t i = 0; i < whole.size(); i++)
    EXPECT_NEAR(t.grad_v.data()[i], whole.data()[i] / std::exp(1.0f), 1e-6 * (1 + std::fabs(whole.data()[i])));
}

// Distances above 0 have a bias of -infinity: a causal mask. NaN, infinity and the largest number behind it stay there.
TEST(ExtremeBias, WhatABiasByDistanceHidesStaysHidden) {
  Tensor<float, 2> table({1, 3});  // distances -1, 0, 1 and beyond
  table(0, 2) = kHidden;
  for (const double dropout : {0.0, 0.3})
    for (const float poison : {NAN, INFINITY, 3e38f})
      for (const std::int64_t queries : {3, 40, 131})
        on_every_target([&] {
          const Sizes sizes{.queries = queries, .keys = queries};
          Tensors clean(sizes), poisoned(sizes);
          AttentionOptions options{.dropout = dropout, .seed = 5};
          options.relative_bias = RelativeBiasView(std::as_const(table).view(), -1);
          poisoned.set_keys(queries - 1, queries - 1, poison);
          // The last query alone sees the last key: what it gives back is not looked at.
          std::fill_n(&clean.grad_out(0, 0, queries - 1, 0), 8, 0.0f);
          clean.run(options), poisoned.run(options);
          const auto rows = static_cast<std::size_t>((queries - 1) * 8) * sizeof(float);
          EXPECT_EQ(std::memcmp(clean.out.data(), poisoned.out.data(), rows), 0) << poison;
          EXPECT_EQ(std::memcmp(clean.grad_q.data(), poisoned.grad_q.data(), rows), 0) << poison;
          for (std::int64_t i = 0; i + 1 < queries; i++) EXPECT_EQ(poisoned.weights(0, 0, i, queries - 1), 0.0f);
        });
}

}  // namespace
}  // namespace phasor
