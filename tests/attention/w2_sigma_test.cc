// The sigmas of W2 attention, exp(log_sigma / 2), and their gradients, on every SIMD target.
//
// With one key whose mean and sigma are 0, means of 0 and tau 1, the log-sum-exp of a query is -scale |sigma|^2. All
// else is exact: the mean key is that key, so k~ is 0 and q~ is q. Squares are summed in double and rounded once.
#include <cmath>
#include <limits>
#include <vector>

#include "attention/error_rule.h"
#include "phasor/attention/w2.h"
#include "phasor/core/random.h"
#include "support/every_target.h"

namespace phasor {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
constexpr double kUlp = 0x1p-23;
constexpr W2Temperature kOne{1.0, 0.0};
const double kMost = std::exp(88.0);  // sigma is not larger

// A query for each number, which is its log_sigma in one channel, another one each time: a row has whole vectors and a
// remainder. In the other channels sigma is 0.
template <class T>
struct Queries {
  std::int64_t count, width;
  Tensor<T, 4> mu, log_sigma, key_mu, key_log_sigma, value, out_mu, out_log_sigma, grad_mu, grad_log_sigma;
  Tensor<T, 4> grad_key_mu, grad_key_log_sigma, grad_value_mu, grad_value_log_sigma;
  Tensor<float, 4> softmax;
  Tensor<float, 3> lse, grad_lse;

  Queries(const std::vector<float>& numbers, std::int64_t channels, float key = -kInfinity)
      : count(static_cast<std::int64_t>(numbers.size())),
        width(channels),
        mu({1, 1, count, width}),
        log_sigma(mu.shape()),
        key_mu({1, 1, 1, width}),
        key_log_sigma(key_mu.shape()),
        value({1, 1, 1, 1}),
        out_mu({1, 1, count, 1}),
        out_log_sigma(out_mu.shape()),
        grad_mu(mu.shape()),
        grad_log_sigma(mu.shape()),
        grad_key_mu(key_mu.shape()),
        grad_key_log_sigma(key_mu.shape()),
        grad_value_mu(value.shape()),
        grad_value_log_sigma(value.shape()),
        softmax({1, 1, count, 2}),
        lse({1, 1, count}),
        grad_lse(lse.shape()) {
    for (Tensor<T, 4>* stream : {&mu, &key_mu, &value}) std::fill(stream->begin(), stream->end(), T(0.0f));
    std::fill(log_sigma.begin(), log_sigma.end(), T(-kInfinity));
    std::fill(key_log_sigma.begin(), key_log_sigma.end(), T(key));
    for (std::int64_t i = 0; i < count; i++) log_sigma(0, 0, i, channel(i)) = T(numbers[static_cast<std::size_t>(i)]);
  }

  std::int64_t channel(std::int64_t query) const { return query % width; }
  // The number as it is stored.
  double number(std::int64_t query) const { return static_cast<float>(log_sigma(0, 0, query, channel(query))); }
  double gradient(std::int64_t query) const { return static_cast<float>(grad_log_sigma(0, 0, query, channel(query))); }

  void forward(double scale) {
    w2_attention_forward(q(), k(), v(), kOne, {{out_mu.view(), out_log_sigma.view()}, lse.view(), softmax.view(), {}},
                         options(scale));
  }
  // The loss is lse . grad_lse.
  void backward(double scale) {
    forward(scale);
    const Tensor<T, 4> zeros(out_mu.shape());
    w2_attention_backward(
        q(), k(), v(), kOne,
        {{out_mu.view(), out_log_sigma.view()}, softmax.view(), {zeros.view(), zeros.view()}, grad_lse.view()},
        {.q = {grad_mu.view(), grad_log_sigma.view()},
         .k = {grad_key_mu.view(), grad_key_log_sigma.view()},
         .v = {grad_value_mu.view(), grad_value_log_sigma.view()}},
        options(scale));
  }

 private:
  // Sigma itself, not rounded to bf16.
  static AttentionOptions options(double scale) { return {.scale = scale, .precision = Precision::float32}; }
  W2Streams<const T> q() const { return {mu.view(), log_sigma.view()}; }
  W2Streams<const T> k() const { return {key_mu.view(), key_log_sigma.view()}; }
  W2Streams<const T> v() const { return {value.view(), value.view()}; }
};

// Numbers from `first` to `last`, and a scale that keeps their squares in the range of float.
struct Range {
  float first, last;
  double scale;
};
constexpr Range kRanges[] = {{-139.0f, -46.0f, 0x1p98}, {-46.0f, 80.0f, 1.0}, {80.0f, 176.0f, 0x1p-150}};

std::vector<float> numbers_of(const Range& range) {
  std::vector<float> numbers;
  for (float x = range.first; x <= range.last; x += 0.0787f) numbers.push_back(x);
  return numbers;
}

// Sigma right to 2 ulp, its square rounded once.
constexpr double kSquareError = (1 + 2 * kUlp) * (1 + 2 * kUlp) * (1 + kUlp / 2) - 1;

template <class T>
void expect_right(const Range& range, std::int64_t width) {
  Queries<T> queries(numbers_of(range), width);
  on_every_target([&] {
    queries.forward(range.scale);
    for (std::int64_t i = 0; i < queries.count; i++) {
      const double expected = -range.scale * std::exp(queries.number(i));
      ASSERT_NEAR(queries.lse(0, 0, i), expected, kSquareError * std::fabs(expected)) << queries.number(i);
    }
  });
}

// The halved argument is exact, so an exponential right to 2 ulp is all there is to lose.
TEST(W2Sigma, IsRightToTwoUlp) {
  for (const Range& range : kRanges)
    for (const std::int64_t width : {1, 33}) {
      expect_right<float>(range, width);
      expect_right<bf16>(range, width);
      expect_right<f16>(range, width);
    }
}

// Through sigma: -2 scale grad_lse sigma, rounded once; then times sigma / 2, rounded once.
constexpr double kGradientError = (1 + kSquareError) * (1 + kUlp / 2) - 1;

template <class T>
void expect_right_gradient(std::int64_t width) {
  Queries<T> queries(numbers_of({-8.0f, 8.0f, 1.0}), width);
  Philox(1).fill_normal(queries.grad_lse);
  on_every_target([&] {
    queries.backward(1.0);
    for (std::int64_t i = 0; i < queries.count; i++) {
      const double expected = -queries.grad_lse(0, 0, i) * std::exp(queries.number(i));
      const double allowed = kGradientError * std::fabs(expected);
      ASSERT_NEAR(queries.gradient(i), expected, allowed + half_ulp(T(), std::fabs(expected) + allowed))
          << queries.number(i);
    }
  });
}

TEST(W2Sigma, GradientIsThatOfSigmaTimesHalfOfIt) {
  for (const std::int64_t width : {1, 33}) {
    expect_right_gradient<float>(width);
    expect_right_gradient<bf16>(width);
    expect_right_gradient<f16>(width);
  }
}

// Of log_sigma 0: sigma is 1, and nothing is rounded.
TEST(W2Sigma, OneIsExact) {
  for (const std::int64_t width : {1, 33}) {
    Queries<float> queries(std::vector<float>(100, 0.0f), width);
    Philox(1).fill_normal(queries.grad_lse);
    on_every_target([&] {
      queries.backward(1.0);
      for (std::int64_t i = 0; i < queries.count; i++) {
        ASSERT_EQ(queries.lse(0, 0, i), -1.0f);
        ASSERT_EQ(queries.gradient(i), -queries.grad_lse(0, 0, i));
      }
    });
  }
}

// A variance too large for float gives the largest sigma, not infinity.
TEST(W2Sigma, HasAnUpperLimit) {
  for (const std::int64_t width : {1, 64}) {
    Queries<float> queries({176.5f, 200.0f, 1e30f, kInfinity}, width);
    on_every_target([&] {
      queries.forward(0x1p-150);
      for (std::int64_t i = 0; i < queries.count; i++)
        EXPECT_NEAR(queries.lse(0, 0, i), -0x1p-150 * kMost * kMost, kSquareError * 0x1p-150 * kMost * kMost)
            << queries.number(i);
    });
  }
}

// The square of a tiny sigma may be 0 where it is not. Its gradient beside a key with sigma 1 is 2^126 sigma.
TEST(W2Sigma, IsZeroForAVarianceTooSmallForFloat) {
  for (const std::int64_t width : {1, 64}) {
    Queries<float> queries({-kInfinity, -1e30f, -300.0f, -145.0f, -138.0f, 0.0f}, width, 0.0f);
    std::fill(queries.grad_lse.begin(), queries.grad_lse.end(), 0x1p28f);
    on_every_target([&] {
      queries.backward(0x1p98);
      for (std::int64_t i = 0; i < 4; i++) EXPECT_EQ(queries.gradient(i), 0.0) << queries.number(i);
      EXPECT_NEAR(queries.gradient(4), 0x1p126 * std::exp(-69.0), kGradientError * 0x1p126 * std::exp(-69.0));
      EXPECT_EQ(queries.gradient(5), 0.0);  // sigma is exactly 1, as the key's
    });
  }
}

TEST(W2Sigma, NaNIsSeen) {
  for (const std::int64_t width : {1, 64})
    for (const std::int64_t count : {2, 40}) {
      std::vector<float> numbers(static_cast<std::size_t>(count), 1.0f);
      numbers[1] = kNaN;
      Queries<float> queries(numbers, width);
      on_every_target([&] {
        queries.forward(0x1p-150);  // with which the largest sigma gives a finite number
        for (std::int64_t i = 0; i < count; i++)
          EXPECT_EQ(std::isnan(queries.lse(0, 0, i)), i == 1) << "query " << i << " of " << count;
      });
    }
}

// A key that no query sees has a gradient of 0, whatever its sigma is, and changes no other.
TEST(W2Sigma, GradientOfAHiddenKeyIsZero) {
  constexpr std::int64_t kTokens = 40, kWidth = 33;
  const Shape<4> shape{1, 1, kTokens, kWidth};
  const float poisons[] = {kNaN, kInfinity, -kInfinity, 3e38f};
  Tensor<float, 4> mu(shape), log_sigma(shape), out_mu(shape), out_log_sigma(shape), grad_out(shape);
  Philox(1).fill_normal(mu);
  Philox(2).fill_normal(log_sigma);
  Philox(3).fill_normal(grad_out);
  const auto hidden = [](std::int64_t key) { return key % 10 < 4; };
  Tensor<float, 4> key_log_sigma = log_sigma, softmax({1, 1, kTokens, 2}), grads[6];
  Tensor<bool, 4> visible({1, 1, 1, kTokens});
  for (std::int64_t j = 0; j < kTokens; j++) {
    visible(0, 0, 0, j) = !hidden(j);
    if (hidden(j)) std::fill_n(&key_log_sigma(0, 0, j, 0), kWidth, poisons[j % 10]);
  }
  for (Tensor<float, 4>& grad : grads) grad = Tensor<float, 4>(shape);
  const W2Streams<float> q{grads[0].view(), grads[1].view()}, k{grads[2].view(), grads[3].view()};
  const W2Streams<float> v{grads[4].view(), grads[5].view()}, out{out_mu.view(), out_log_sigma.view()};
  const W2Streams<const float> queries{mu.view(), log_sigma.view()}, keys{mu.view(), key_log_sigma.view()};
  const AttentionOptions options{.mask = visible};
  on_every_target([&] {
    w2_attention_forward(queries, keys, queries, 8.0, {.out = out, .softmax = softmax.view()}, options);
    w2_attention_backward(queries, keys, queries, 8.0, {out, softmax.view(), {grad_out.view(), grad_out.view()}, {}},
                          {.q = q, .k = k, .v = v}, options);
    for (std::size_t g = 0; g < 6; g++)
      for (std::int64_t j = 0; j < kTokens; j++)
        for (std::int64_t c = 0; c < kWidth; c++) {
          ASSERT_TRUE(std::isfinite(grads[g](0, 0, j, c))) << "gradient " << g << ", token " << j;
          ASSERT_EQ(grads[g](0, 0, j, c) == 0, g >= 2 && hidden(j)) << "gradient " << g << ", token " << j;
        }
  });
}

}  // namespace
}  // namespace phasor
