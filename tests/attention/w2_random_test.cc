// w2_attention_forward against the double reference: random cases on every SIMD target.
//
// The rule is that of error_rule.h, twice the error of the plain float implementation plus 4 ulp of the largest number
// in a row, and then what the expansion costs. With e_ij of w2_bound.h, weights p_j and e_i = log(sum_j p_j exp(e_ij)),
// the log-sum-exp is off by at most e_i, and a weight by a factor of at most exp(e_ij + e_i). So out is off by
// exp(e_i) sum_j p_j (exp(e_ij) - 1) |v_j| + (exp(e_i) - 1) |out|.
//
// Where products are those of bf16, e_ij has the rounding of rows, and weights are rounded by 2^-9 for their product.
#include <cmath>

#include "attention/error_rule.h"
#include "attention/w2_bound.h"
#include "attention/w2_case.h"
#include "phasor/core/parallel.h"
#include "support/every_target.h"
#include "support/seeds.h"

namespace phasor {
namespace {

using reference::Array;

// The exact results, and how far off the expansion may be.
struct Exact {
  reference::W2Result<double> result;
  Array<double, 4> mu_error, log_sigma_error, weight_error;
  Array<double, 3> lse_error;

  Exact(const reference::W2Problem<double>& w, bool narrow)
      : result(w2_forward(w)),
        mu_error(result.log_sigma.shape),
        log_sigma_error(result.log_sigma.shape),
        weight_error(result.mu.weights.shape),
        lse_error(result.mu.lse.shape) {
    const Centred x(w);
    for (std::int64_t b = 0; b < w.means.batch(); b++)
      for (std::int64_t h = 0; h < w.means.heads(); h++)
        for (std::int64_t i = 0; i < w.means.queries(); i++) add_row(w, x, narrow, b, h, i);
  }

 private:
  void add_row(const reference::W2Problem<double>& w, const Centred& x, bool narrow, std::int64_t b, std::int64_t h,
               std::int64_t i) {
    constexpr double kMost = 50;  // beyond it nothing is said
    const double of_weight = narrow ? 0x1p-9 : 0.0;
    const reference::Problem<double>& p = w.means;
    const std::int64_t g = p.group(h);
    double& row_error = lse_error(b, h, i);
    std::vector<double> errors(static_cast<std::size_t>(p.keys()));
    for (std::int64_t j = 0; j < p.keys(); j++) {
      double& error = errors[static_cast<std::size_t>(j)];
      error = x.score_error(w, b, h, i, j) + (narrow ? x.rounding_error(w, b, h, i, j) : 0.0);
      error = std::min(error, kMost);
      row_error += result.mu.weights(b, h, i, j) * std::expm1(error);
    }
    row_error = std::log1p(row_error);
    for (std::int64_t j = 0; j < p.keys(); j++) {
      const double weight = result.mu.weights(b, h, i, j), error = errors[static_cast<std::size_t>(j)];
      weight_error(b, h, i, j) = weight * std::expm1(error + row_error);
      const double of_value = weight * (std::exp(row_error) * std::expm1(error) + of_weight);
      for (std::int64_t e = 0; e < p.value_width(); e++) {
        mu_error(b, h, i, e) += of_value * std::fabs(p.v(b, g, j, e));
        log_sigma_error(b, h, i, e) += of_value * std::fabs(w.v_log_sigma(b, g, j, e));
      }
    }
    for (std::int64_t e = 0; e < p.value_width(); e++) {
      mu_error(b, h, i, e) += std::expm1(row_error) * std::fabs(result.mu.out(b, h, i, e));
      log_sigma_error(b, h, i, e) += std::expm1(row_error) * std::fabs(result.log_sigma(b, h, i, e));
    }
  }
};

template <class T, int Rank>
void expect_close(const char* name, const Guarded<T, Rank>& given, const Array<double, Rank>& exact,
                  const Array<float, Rank>& plain, const Array<double, Rank>& expansion_error) {
  given.expect_guards(name);
  double plain_error = 0, largest = 0;
  for (std::size_t i = 0; i < exact.values.size(); i++)
    if (std::isfinite(exact.values[i]))
      plain_error = std::max(plain_error, std::fabs(exact.values[i] - plain.values[i]));
  std::size_t i = 0;
  const auto row = static_cast<std::size_t>(exact.shape.back());
  given.for_each([&](const T& element) {
    if (i % row == 0) {
      largest = 0;
      for (std::size_t j = i; j < i + row; j++)
        if (std::isfinite(exact.values[j])) largest = std::max(largest, std::fabs(exact.values[j]));
    }
    const double value = exact.values[i], found = static_cast<float>(element);
    double allowed = 2 * plain_error + 0x1p-21 * largest + expansion_error.values[i++];
    allowed += half_ulp(T(), std::fabs(value) + allowed);
    if (found == value || ::testing::Test::HasFailure()) return;
    EXPECT_LE(std::fabs(found - value), allowed) << name << ", element " << i - 1 << ": " << found << ", not " << value;
  });
}

template <class T>
void check_case(const W2Case& c) {
  const W2Inputs<T> inputs(c);
  constexpr bool kMayBeNarrow = std::is_same_v<T, bf16>;
  const Exact wide(inputs.template problem<double>(), false), narrow(inputs.template problem<double>(), kMayBeNarrow);
  const reference::W2Result<float> plain = w2_forward(inputs.template problem<float>());
  on_every_target_and_emulations([&] {
    const Exact& exact = multiplies_bf16() ? narrow : wide;
    W2Outputs<T> outputs(c);
    outputs.run(inputs);
    expect_close("out_mu", outputs.mu, exact.result.mu.out, plain.mu.out, exact.mu_error);
    expect_close("out_log_sigma", outputs.log_sigma, exact.result.log_sigma, plain.log_sigma, exact.log_sigma_error);
    expect_close("lse", outputs.lse, exact.result.mu.lse, plain.mu.lse, exact.lse_error);
    expect_close("weights", outputs.weights, exact.result.mu.weights, plain.mu.weights, exact.weight_error);
    set_num_threads(3);
    W2Outputs<T> again(c);
    again.run(inputs);
    set_num_threads(0);
    EXPECT_TRUE(outputs.same_bits(again)) << "with 3 threads";
  });
}

template <class T>
void check_cases(std::uint32_t first) {
  for (const std::uint32_t seed : seeds({.first = first, .count = 150})) {
    SCOPED_TRACE(repeat_seed(seed));
    const W2Case c = random_w2_case(seed, 100'000);
    std::ostringstream text;
    text << c << " tau " << c.tau;
    SCOPED_TRACE(text.str());
    check_case<T>(c);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(W2Random, Float) { check_cases<float>(1); }
TEST(W2Random, Bf16) { check_cases<bf16>(1001); }
TEST(W2Random, F16) { check_cases<f16>(2001); }

// The sizes at which tiles, panels and blocks of rows end, and one query against many keys.
TEST(W2Random, Sizes) {
  for (const std::int64_t tokens : {1, 17, 81, 197})
    for (const std::int64_t width : {1, 40, 80})
      for (const bool decode : {false, true}) {
        W2Case c;
        c.heads = 2, c.queries = decode ? 1 : tokens, c.keys = tokens, c.width = c.value_width = width;
        c.causal = true;
        c.tau = 0.25 * static_cast<double>(width);
        SCOPED_TRACE(testing::Message() << static_cast<const Case&>(c));
        check_case<float>(c);
      }
}

}  // namespace
}  // namespace phasor
