// What W2 attention does, one behaviour at a time.
#include "phasor/attention/w2.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "phasor/core/random.h"
#include "reference/w2.h"
#include "support/every_target.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Means are normal, sigmas uniform from 0.1 to 2.
struct Streams {
  Tensor<float, 4> mu, log_sigma;
  Streams() = default;
  explicit Streams(const Shape<4>& shape) : mu(shape), log_sigma(shape) {}
  Streams(const Shape<4>& shape, std::uint64_t seed) : Streams(shape) {
    Philox(seed).fill_normal(mu);
    Philox(seed, 1).fill_uniform(log_sigma, 0.1f, 2.0f);
    for (float& x : log_sigma) x = 2 * std::log(x);
  }
  W2Streams<const float> in() const { return {mu.view(), log_sigma.view()}; }
  W2Streams<float> view() { return {mu.view(), log_sigma.view()}; }
};

double sigma_of(float log_sigma) { return std::exp(static_cast<double>(log_sigma) / 2); }

struct Sizes {
  std::int64_t batch = 1, heads = 2, groups = 1, queries = 9, keys = 13, width = 8, value_width = 6;
};

struct Call {
  Streams q, k, v, out, grad_out, grad_q, grad_k, grad_v;
  Tensor<float, 4> softmax, weights;
  Tensor<float, 3> lse, grad_lse;
  double tau = 3.0, grad_tau = NAN;
  AttentionOptions options;

  explicit Call(const Sizes& s = {})
      : q({s.batch, s.heads, s.queries, s.width}, 1),
        k({s.batch, s.groups, s.keys, s.width}, 2),
        v({s.batch, s.groups, s.keys, s.value_width}, 3),
        out({s.batch, s.heads, s.queries, s.value_width}),
        grad_out(out.mu.shape(), 4),
        grad_q(q.mu.shape()),
        grad_k(k.mu.shape()),
        grad_v(v.mu.shape()),
        softmax({s.batch, s.heads, s.queries, 2}),
        weights({s.batch, s.heads, s.queries, s.keys}),
        lse({s.batch, s.heads, s.queries}),
        grad_lse(lse.shape()) {
    Philox(5).fill_normal(grad_lse);
  }

  W2Output<float> output() { return {out.view(), lse.view(), softmax.view(), weights.view()}; }
  W2BackwardInput<float> input() { return {out.in(), softmax.view(), grad_out.in(), grad_lse.view()}; }
  W2Gradients<float> gradients() {
    return {.q = grad_q.view(), .k = grad_k.view(), .v = grad_v.view(), .tau = &grad_tau};
  }
  void forward() { w2_attention_forward(q.in(), k.in(), v.in(), tau, output(), options); }
  void backward() { w2_attention_backward(q.in(), k.in(), v.in(), tau, input(), gradients(), options); }
  void run() {
    forward();
    backward();
  }
};

double distance(const Tensor<float, 4>& a, const Tensor<float, 4>& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.size(); i++)
    largest = std::max(largest, std::fabs(static_cast<double>(a.data()[i]) - b.data()[i]));
  return largest;
}

bool is_finite(const Tensor<float, 4>& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

void move_means(Streams& x, float by) {
  for (float& value : x.mu) value += by;
}

// Multiples of 1/1024, which stay exact when 100 is added.
void put_means_on_grid(Streams& x) {
  for (float& value : x.mu) value = std::round(value * 1024) / 1024;
}

// The same call without subtracting the mean key: what would happen otherwise.
Tensor<float, 4> out_without_mean_key(const Call& call) {
  const auto join = [](const Streams& x) {
    const auto [batch, heads, rows, channels] = x.mu.shape();
    Tensor<float, 4> joined({batch, heads, rows, 2 * channels});
    for (std::int64_t row = 0; row < batch * heads * rows; row++) {
      std::copy_n(x.mu.data() + row * channels, channels, joined.data() + 2 * row * channels);
      std::transform(x.log_sigma.data() + row * channels, x.log_sigma.data() + (row + 1) * channels,
                     joined.data() + (2 * row + 1) * channels,
                     [](float value) { return static_cast<float>(sigma_of(value)); });
    }
    return joined;
  };
  const double t = 1 / (std::fabs(call.tau) + kTauEps);
  const Tensor<float, 4> q = join(call.q), k = join(call.k);
  Tensor<float, 3> bias({k.shape()[0], k.shape()[1], k.shape()[2]});
  for (std::int64_t row = 0; row < bias.size(); row++) {
    double norm = 0;
    for (std::int64_t c = 0; c < k.shape()[3]; c++) norm += std::pow(k.data()[row * k.shape()[3] + c], 2);
    bias.data()[row] = static_cast<float>(-t * norm);
  }
  Tensor<float, 4> out(call.out.mu.shape());
  AttentionOptions options = call.options;
  options.scale = 2 * t;
  options.key_bias = std::as_const(bias).view();
  attention_forward(q.view(), k.view(), call.v.mu.view(), {.out = out.view()}, options);
  return out;
}

// Of the means: no log_sigma moves a sigma by exactly 100.
TEST(W2, DoesNotDependOnWhereTheOriginIs) {
  Call here({.queries = 40, .keys = 70, .width = 32});
  here.tau = 16;
  put_means_on_grid(here.q);
  put_means_on_grid(here.k);
  here.run();
  Call there = here;
  move_means(there.q, 100);
  move_means(there.k, 100);
  there.run();
  // t |q~|^2 is about 5, and rounding 2^-24 of it a few times over.
  EXPECT_LT(distance(here.out.mu, there.out.mu), 5e-6);
  EXPECT_LT(distance(here.out.log_sigma, there.out.log_sigma), 5e-6);
  EXPECT_LT(distance(here.weights, there.weights), 5e-6);
  EXPECT_LT(distance(here.grad_q.mu, there.grad_q.mu), 5e-6);
  EXPECT_LT(distance(here.grad_k.log_sigma, there.grad_k.log_sigma), 5e-6);
  EXPECT_NEAR(here.grad_tau, there.grad_tau, 1e-5);
  // Without the mean key it is t |q|^2 = 20,000.
  EXPECT_LT(distance(here.out.mu, out_without_mean_key(here)), 5e-6);
  EXPECT_GT(distance(here.out.mu, out_without_mean_key(there)), 1e-4);
}

TEST(W2, LogSumExpIsThatOfTheDistances) {
  Call call;
  call.forward();
  for (std::int64_t h = 0; h < 2; h++)
    for (std::int64_t i = 0; i < 9; i++) {
      double sum = 0;
      for (std::int64_t j = 0; j < 13; j++) {
        double squares = 0;
        for (std::int64_t c = 0; c < 8; c++)
          squares += std::pow(call.q.mu(0, h, i, c) - call.k.mu(0, 0, j, c), 2) +
                     std::pow(sigma_of(call.q.log_sigma(0, h, i, c)) - sigma_of(call.k.log_sigma(0, 0, j, c)), 2);
        sum += std::exp(-squares / 3.000001);
      }
      EXPECT_NEAR(call.lse(0, h, i), std::log(sum), 1e-5);
    }
}

TEST(W2, WithoutSigmaItIsDistanceAttention) {
  Call call({.batch = 2, .heads = 4, .groups = 2});
  call.options.causal = true;
  for (Streams* x : {&call.q, &call.k}) std::fill(x->log_sigma.begin(), x->log_sigma.end(), -kInfinity);
  call.forward();
  EXPECT_LT(distance(call.out.mu, out_without_mean_key(call)), 1e-5);
}

TEST(W2, SignOfTauDoesNotMatter) {
  Call plus, minus;
  minus.tau = -plus.tau;
  plus.run();
  minus.run();
  EXPECT_EQ(distance(plus.out.mu, minus.out.mu), 0);
  EXPECT_EQ(distance(plus.grad_q.mu, minus.grad_q.mu), 0);
  EXPECT_EQ(plus.grad_tau, -minus.grad_tau);
  EXPECT_NE(plus.grad_tau, 0);
}

// Only |tau| + eps counts, and tau's gradient has the sign of tau.
TEST(W2, EpsIsAddedToTau) {
  Call one, other;
  one.tau = 0.75;
  w2_attention_forward(one.q.in(), one.k.in(), one.v.in(), {0.75, 0.5}, one.output(), one.options);
  w2_attention_backward(one.q.in(), one.k.in(), one.v.in(), {0.75, 0.5}, one.input(), one.gradients(), one.options);
  w2_attention_forward(other.q.in(), other.k.in(), other.v.in(), {-1.25, 0}, other.output(), other.options);
  w2_attention_backward(other.q.in(), other.k.in(), other.v.in(), {-1.25, 0}, other.input(), other.gradients(),
                        other.options);
  EXPECT_EQ(distance(one.out.mu, other.out.mu), 0);
  EXPECT_EQ(distance(one.grad_q.mu, other.grad_q.mu), 0);
  EXPECT_NE(one.grad_tau, 0);
  EXPECT_EQ(one.grad_tau, -other.grad_tau);
  EXPECT_ERROR(w2_attention_forward(one.q.in(), one.k.in(), one.v.in(), {0, 0}, one.output(), one.options),
               "eps: 0 beside tau 0", "above 0");
  EXPECT_ERROR(w2_attention_forward(one.q.in(), one.k.in(), one.v.in(), {1, -1e-6}, one.output(), one.options),
               "eps: -1e-06", "at least 0");
}

TEST(W2, TauZeroFindsTheNearestKey) {
  Call call;
  call.tau = 0;
  call.q.mu(0, 0, 3, 0) = NAN;  // a query of its own
  for (std::int64_t c = 0; c < 8; c++) {
    call.q.mu(0, 1, 2, c) = call.k.mu(0, 0, 5, c);
    call.q.log_sigma(0, 1, 2, c) = call.k.log_sigma(0, 0, 5, c);
  }
  call.forward();
  EXPECT_EQ(call.weights(0, 1, 2, 5), 1.0f);
  EXPECT_TRUE(std::isnan(call.out.mu(0, 0, 3, 0)));
  call.q.mu(0, 0, 3, 0) = 0;
  call.run();
  EXPECT_EQ(call.grad_tau, 0.0);
}

// Where softmax has chosen one key, no temperature changes anything.
TEST(W2, GradientOfTauVanishesWhereOneKeyIsChosen) {
  on_every_target([] {
    Call call({.queries = 64, .keys = 256, .width = 64});
    for (std::int64_t i = 0; i < 64; i++) {  // query i is nearly key i; others are far
      for (std::int64_t h = 0; h < 2; h++)
        for (std::int64_t c = 0; c < 64; c++) {
          call.q.mu(0, h, i, c) = call.k.mu(0, 0, i, c) + 0.02f * call.q.mu(0, h, i, c);
          call.q.log_sigma(0, h, i, c) = call.k.log_sigma(0, 0, i, c);
        }
    }
    std::fill(call.grad_lse.begin(), call.grad_lse.end(), 0.0f);
    call.tau = 0.05;
    call.run();
    EXPECT_LT(std::fabs(call.grad_tau), 1e-4);
  });
}

TEST(W2, KeysBeyondTheLengthAreNotRead) {
  Call call({.batch = 2});
  const std::vector<std::int64_t> lengths{13, 6};
  call.options.key_lengths = lengths;
  call.run();
  Call poisoned = call;
  poisoned.options.key_lengths = lengths;
  for (std::int64_t j = 6; j < 13; j++)
    for (Streams* x : {&poisoned.k, &poisoned.v}) {
      std::fill_n(&x->mu(1, 0, j, 0), x->mu.shape()[3], NAN);
      std::fill_n(&x->log_sigma(1, 0, j, 0), x->mu.shape()[3], INFINITY);
    }
  poisoned.run();
  EXPECT_EQ(distance(call.out.log_sigma, poisoned.out.log_sigma), 0);
  EXPECT_EQ(distance(call.grad_q.mu, poisoned.grad_q.mu), 0);
  EXPECT_EQ(distance(call.grad_k.mu, poisoned.grad_k.mu), 0);
  EXPECT_EQ(call.grad_tau, poisoned.grad_tau);
}

// Key `hidden` has NaN, infinity or a number near the largest, and the call's options hide it.
void expect_nan_hurts_nobody(Call call, std::int64_t hidden, float poison = NAN) {
  if (std::isnan(poison))
    for (const float other : {INFINITY, 3e38f, 60000.0f}) expect_nan_hurts_nobody(call, hidden, other);
  SCOPED_TRACE(poison);
  for (Streams* x : {&call.k, &call.v})
    for (Tensor<float, 4>* stream : {&x->mu, &x->log_sigma})
      std::fill_n(&(*stream)(0, 0, hidden, 0), stream->shape()[3], poison);
  call.run();
  for (const Streams* x : {&call.out, &call.grad_q, &call.grad_k, &call.grad_v})
    EXPECT_TRUE(is_finite(x->mu) && is_finite(x->log_sigma));
  EXPECT_TRUE(std::isfinite(call.grad_tau));
  for (const Tensor<float, 4>* grad :
       {&call.grad_k.mu, &call.grad_k.log_sigma, &call.grad_v.mu, &call.grad_v.log_sigma})
    EXPECT_EQ((*grad)(0, 0, hidden, 0), 0.0f);
  EXPECT_EQ(call.weights(0, 1, 3, hidden), 0.0f);
}

// Few queries go to the decode kernel, others leave lanes of a panel without a query.
TEST(W2, HiddenNaNHurtsNobody) {
  Tensor<bool, 4> visible({1, 1, 1, 13});
  Tensor<float, 3> bias({1, 1, 13});
  for (std::int64_t j = 0; j < 13; j++) visible(0, 0, 0, j) = j != 4;
  bias(0, 0, 4) = -kInfinity;
  for (const std::int64_t queries : {9, 32, 37}) {
    SCOPED_TRACE(queries);
    Call call({.queries = queries});
    call.options.mask = std::as_const(visible).view();
    expect_nan_hurts_nobody(call, 4);
    call.options = {.key_bias = std::as_const(bias).view()};
    expect_nan_hurts_nobody(call, 4);
  }
}

TEST(W2, NaNOfAQueryThatSeesNoKeyHurtsNobody) {
  constexpr std::int64_t kQueries = 37, kHidden = 33;
  Tensor<bool, 4> visible({1, 1, kQueries, 1});
  for (std::int64_t i = 0; i < kQueries; i++) visible(0, 0, i, 0) = i != kHidden;
  Call call({.queries = kQueries});
  call.options.mask = std::as_const(visible).view();
  for (Tensor<float, 4>* stream : {&call.q.mu, &call.q.log_sigma})
    for (std::int64_t h = 0; h < stream->shape()[1]; h++)
      std::fill_n(&(*stream)(0, h, kHidden, 0), stream->shape()[3], NAN);
  call.run();
  for (const Streams* x : {&call.out, &call.grad_q, &call.grad_k, &call.grad_v})
    EXPECT_TRUE(is_finite(x->mu) && is_finite(x->log_sigma));
  EXPECT_TRUE(std::isfinite(call.grad_tau));
}

// The last query stands at key 12. The bias of distances above -1 is -infinity, so no query sees key 12.
TEST(W2, NaNHiddenByABiasOfDistanceHurtsNobody) {
  Tensor<float, 2> table({2, 3});  // of distances up to -2, -1, and from 0 on
  table(0, 2) = table(1, 2) = -kInfinity;
  for (const std::int64_t queries : {9, 32, 37}) {
    SCOPED_TRACE(queries);
    Call call({.queries = queries});
    call.options.relative_bias = RelativeBiasView(std::as_const(table).view(), -2);
    expect_nan_hurts_nobody(call, 12);
  }
}

TEST(W2, QueryWithoutKeysGivesZero) {
  Call call({.queries = 5, .keys = 3});
  call.options.causal = true;  // the last query stands at the last key: two see nothing
  call.run();
  for (std::int64_t i = 0; i < 2; i++) {
    EXPECT_EQ(call.out.mu(0, 0, i, 0), 0.0f);
    EXPECT_EQ(call.lse(0, 0, i), -kInfinity);
    EXPECT_EQ(call.grad_q.log_sigma(0, 1, i, 2), 0.0f);
  }
  EXPECT_TRUE(std::isfinite(call.grad_tau));
}

TEST(W2, EmptyTensors) {
  for (const Sizes& sizes :
       {Sizes{.batch = 0}, Sizes{.queries = 0}, Sizes{.keys = 0}, Sizes{.queries = 40, .keys = 0}}) {
    Call call(sizes);
    for (Tensor<float, 4>* out : {&call.out.mu, &call.out.log_sigma}) std::fill(out->begin(), out->end(), NAN);
    call.run();
    EXPECT_EQ(call.grad_tau, 0.0);
    for (const Tensor<float, 4>* out : {&call.out.mu, &call.out.log_sigma})
      for (const float value : *out) ASSERT_EQ(value, 0.0f);
  }
}

TEST(W2, RefusesWhatHasNoMeaning) {
  Call call;
  call.options.softcap = NAN;
  EXPECT_ERROR(call.forward(), "[w2_attention_forward]", "softcap: nan");
  call.options = {.scale = INFINITY};
  EXPECT_ERROR(call.backward(), "[w2_attention_backward]", "scale: inf");
  const std::vector<float> sinks(3);
  call.options = {.sinks = sinks};
  EXPECT_ERROR(call.forward(), "[w2_attention_forward]", "sinks: 3 numbers", "expected 2");
  call.options = {};
  for (const double tau : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    call.tau = tau;
    EXPECT_ERROR(call.forward(), "[w2_attention_forward]", "tau: ", "expected a finite number");
    EXPECT_ERROR(call.backward(), "[w2_attention_backward]", "tau: ", "expected a finite number");
  }
  const auto tiny = W2Temperature(1e-45, 0.0);
  EXPECT_ERROR(w2_attention_forward(call.q.in(), call.k.in(), call.v.in(), tiny, call.output()), "tau: 1e-45", "5e+29");
}

TEST(W2, RefusesShapesThatDoNotFit) {
  Call call;
  const Call good = call;
  call.q.log_sigma = Tensor<float, 4>({1, 2, 9, 7});
  EXPECT_ERROR(call.forward(), "[w2_attention_forward]", "q_log_sigma: shape [1, 2, 9, 7]", "expected [1, 2, 9, 8]");
  check_w2_attention(good.q.in(), good.k.in(), good.v.in(), 1.0);
  EXPECT_ERROR(check_w2_attention(call.q.in(), call.k.in(), call.v.in(), 1.0), "[check_w2_attention]",
               "q_log_sigma: shape [1, 2, 9, 7]", "expected [1, 2, 9, 8]");
  call = good;
  call.k.mu = Tensor<float, 4>({1, 1, 13, 9});
  EXPECT_ERROR(call.forward(), "[w2_attention_forward]", "k_mu: shape [1, 1, 13, 9]");
  call = good;
  call.v.log_sigma = Tensor<float, 4>();
  EXPECT_ERROR(call.backward(), "[w2_attention_backward]", "v_log_sigma: shape [0, 0, 0, 0]", "expected [1, 1, 13, 6]");
  call = good;
  call.out.log_sigma = Tensor<float, 4>({1, 2, 9, 5});
  EXPECT_ERROR(call.forward(), "out_log_sigma: shape [1, 2, 9, 5]", "expected [1, 2, 9, 6]");
  EXPECT_ERROR(call.backward(), "out_log_sigma: shape [1, 2, 9, 5]", "expected [1, 2, 9, 6]");
  call = good;
  call.grad_k.log_sigma = Tensor<float, 4>({1, 1, 12, 8});
  EXPECT_ERROR(call.backward(), "grad_k_log_sigma: shape [1, 1, 12, 8]", "expected [1, 1, 13, 8]");
  Call wide({.width = 257});
  EXPECT_ERROR(wide.forward(), "q_mu: shape [1, 2, 9, 257]", "expected a last dimension of 1 to 256");
  Call capped({.width = 256});
  capped.forward();
  capped.options.softcap = 5;
  EXPECT_ERROR(capped.forward(), "q_mu: shape [1, 2, 9, 256]", "expected a last dimension of 1 to 255", "softcap");
  Call wide_values({.value_width = 300});
  EXPECT_ERROR(wide_values.backward(), "v_mu: shape [1, 1, 13, 300]", "expected a last dimension of 1 to 256");
}

TEST(W2, RefusesOverlap) {
  Call call({.heads = 1, .queries = 13, .value_width = 8});
  W2Output<float> output = call.output();
  output.out.log_sigma = call.k.view().log_sigma;
  EXPECT_ERROR(w2_attention_forward(call.q.in(), call.k.in(), call.v.in(), 1, output), "[w2_attention_forward]",
               "out_log_sigma: ", "overlaps", "k_log_sigma");
  output.out.log_sigma = output.out.mu;
  EXPECT_ERROR(w2_attention_forward(call.q.in(), call.k.in(), call.v.in(), 1, output), "out_mu: ", "overlaps",
               "out_log_sigma");
  W2Gradients<float> gradients = call.gradients();
  gradients.k.mu = gradients.q.log_sigma;
  EXPECT_ERROR(w2_attention_backward(call.q.in(), call.k.in(), call.v.in(), 1, call.input(), gradients),
               "[w2_attention_backward]", "grad_k_mu: ", "overlaps", "grad_q_log_sigma");
}

}  // namespace
}  // namespace phasor
