#include <algorithm>
#include <cmath>
#include <numeric>

#include "check.h"
#include "phasor/core/random.h"
#include "phasor/core/simd_target.h"
#include "phasor/position/alibi.h"
#include "phasor/position/forms.h"
#include "phasor/position/pairing.h"
#include "phasor/position/relative.h"
#include "phasor/position/rotary.h"
#include "phasor/position/sinusoidal.h"

namespace phasor::tool {
namespace {

Tensor<float, 4> random_heads(const Shape<4>& shape, std::uint64_t seed) {
  Tensor<float, 4> x(shape);
  Philox(seed).fill_normal(x);
  return x;
}

double dot(const Tensor<float, 4>& a, const Tensor<float, 4>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double largest_difference(const Tensor<float, 4>& a, const Tensor<float, 4>& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.size(); i++)
    largest = std::max(largest, std::fabs(static_cast<double>(a.data()[i]) - b.data()[i]));
  return largest;
}

Tensor<float, 4> rotated(const Tensor<float, 4>& x, const RopeConfig& config, std::int64_t first,
                         Rotation rotation = Rotation::forward) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(x.shape()[2], first);
  Tensor<float, 4> result(x.shape());
  apply_rotary(x.view(), rotary_table(config, positions.view()), result.view(), rotation);
  return result;
}

// ---- RoPE ----

void check_shapes(std::vector<Check>& checks) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(64);
  const WideTable wide = full_width(half_table({.head_dim = 64}, positions.view()));
  std::ostringstream text;
  text << shape_text(wide.cos.shape());
  checks.push_back(equal("RoPE shapes: cos, sin of 64 positions, head 64", text.str(), "[1, 64, 64]"));
}

void check_frequencies(std::vector<Check>& checks) {  // head_dim 128, theta 10000
  const std::vector<double> w = rope_frequencies({.head_dim = 128}).inv_freq;
  checks.push_back(near("inv_freq: entries", static_cast<double>(w.size()), 64, 0));
  checks.push_back(near("inv_freq: least", w.back(), 0.000115, 5e-7));
  checks.push_back(near("inv_freq: greatest", *std::ranges::max_element(w), 1, 0));
  checks.push_back(near("inv_freq: mean", std::reduce(w.begin(), w.end()) / 64.0, 0.116562, 5e-7));
  const double first[] = {1, 0.865964, 0.749894, 0.649382, 0.562341};
  for (std::size_t i = 0; i < std::size(first); i++)
    checks.push_back(near("inv_freq: number " + std::to_string(i + 1), w[i], first[i], 5e-7));
  const Tensor<std::int64_t, 3> positions = consecutive_positions(16);
  const HalfTable table = half_table({.head_dim = 128}, positions.view());
  double off_unit = 0;
  for (std::int64_t i = 0; i < table.cos.size(); i++)
    off_unit =
        std::max(off_unit, std::fabs(std::pow(table.cos.data()[i], 2.0) + std::pow(table.sin.data()[i], 2.0) - 1.0));
  checks.push_back(at_most("largest |cos^2 + sin^2 - 1|", off_unit, 1.2e-7));
  const std::pair<std::int64_t, double> differences[] = {{0, 0}, {1, 0.1094}, {4, 0.1844}, {8, 0.1783}};
  for (const auto& [k, expected] : differences) {
    double sum = 0;
    for (std::int64_t t = 0; t + k < 16; t++)
      for (std::int64_t i = 0; i < 64; i++)
        sum += table.cos(0, t, i) * table.sin(0, t + k, i) - table.sin(0, t, i) * table.cos(0, t + k, i);
    checks.push_back(near("mean sine of the rotation over " + std::to_string(k) + " positions",
                          sum / static_cast<double>((16 - k) * 64), expected, 5e-5));
  }
}

void check_relative_position(std::vector<Check>& checks) {
  const RopeConfig config{.head_dim = 128};
  const Tensor<float, 4> q = random_heads({1, 1, 1, 128}, 1), k = random_heads({1, 1, 1, 128}, 2);
  const auto score = [&](std::int64_t at_q, std::int64_t at_k) {
    return dot(rotated(q, config, at_q), rotated(k, config, at_k));
  };
  checks.push_back(near("score of q at 3, k at 5, against q at 0, k at 2", score(3, 5), score(0, 2), 2e-5));
  checks.push_back(near("the same a million positions later", score(1'000'003, 1'000'005), score(0, 2), 2e-5));
}

void check_rotation(std::vector<Check>& checks) {
  const Tensor<float, 4> x = random_heads({2, 4, 33, 64}, 3), y = random_heads({2, 4, 33, 64}, 4);
  const RopeConfig config{.head_dim = 64};
  const Tensor<float, 4> rotated_x = rotated(x, config, 7);
  double worst = 0;
  for (std::int64_t row = 0; row < x.size() / 64; row++) {
    const auto norm = [row](const Tensor<float, 4>& of) {
      const float* first = of.data() + row * 64;
      return std::sqrt(std::inner_product(first, first + 64, first, 0.0));
    };
    worst = std::max(worst, std::fabs(norm(rotated_x) - norm(x)));
  }
  checks.push_back(at_most("change of vector norms", worst, 1e-5));
  const Tensor<float, 4> back = rotated(rotated_x, config, 7, Rotation::transpose);
  checks.push_back(at_most("forward, then transpose: change of x", largest_difference(back, x), 2e-6));
  checks.push_back(
      near("<Rx, y> against <x, R'y>", dot(rotated_x, y), dot(x, rotated(y, config, 7, Rotation::transpose)), 1e-4));
}

void check_pairings(std::vector<Check>& checks) {
  const Tensor<float, 4> x = random_heads({1, 1, 9, 64}, 5);
  const auto permuted = [](const Tensor<float, 4>& from, Pairing to) {
    const std::vector<std::int64_t> permutation = pairing_permutation(to, 64);
    Tensor<float, 4> result(from.shape());
    for (std::int64_t i = 0; i < from.size(); i++)
      result.data()[i] = from.data()[i / 64 * 64 + permutation[static_cast<std::size_t>(i % 64)]];
    return result;
  };
  const Tensor<float, 4> adjacent = rotated(x, {.head_dim = 64, .pairing = Pairing::adjacent}, 3);
  const Tensor<float, 4> by_half =
      permuted(rotated(permuted(x, Pairing::half), {.head_dim = 64}, 3), Pairing::adjacent);
  checks.push_back(at_most("adjacent pairs against permuted half-split", largest_difference(adjacent, by_half), 0));
}

void check_scalings(std::vector<Check>& checks) {
  checks.push_back(near("NTK-aware theta, factor 4", ntk_aware_theta(10000, 4, 128), 40889.942432, 1e-6));
  RopeConfig dynamic{.head_dim = 128, .scaling = {.type = "dynamic", .factor = 2.0}, .max_position_embeddings = 2048};
  checks.push_back(near("dynamic theta at twice the length",
                        std::pow(rope_frequencies(dynamic, 4096).inv_freq[1], -64.0), 30527.74, 5e-3));
  const RopeConfig llama3{.head_dim = 128,
                          .theta = 5e5,
                          .scaling = {.type = "llama3",
                                      .factor = 8.0,
                                      .original_max_position_embeddings = 8192,
                                      .low_freq_factor = 1.0,
                                      .high_freq_factor = 4.0}};
  checks.push_back(near("Llama 3.1 inv_freq[30]", rope_frequencies(llama3).inv_freq[30], 1.37189357e-3, 5e-12));
  const RopeConfig yarn{.head_dim = 64,
                        .theta = 150000,
                        .scaling = {.type = "yarn", .factor = 32.0, .original_max_position_embeddings = 4096}};
  checks.push_back(near("YaRN attention factor, factor 32", rope_frequencies(yarn).attention_factor, 1.346574, 5e-7));
}

void check_precision(std::vector<Check>& checks) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(1, 1'048'575);
  const HalfTable table = half_table({.head_dim = 128}, positions.view());
  double worst = 0;
  for (std::int64_t i = 0; i < 64; i++) {
    const long double angle = 1'048'575.0L * std::pow(10000.0L, -2.0L * static_cast<long double>(i) / 128.0L);
    worst = std::max(worst, std::fabs(static_cast<double>(table.sin(0, 0, i) - std::sin(angle))));
  }
  checks.push_back(at_most("error of sines at position 1,048,575", worst, 1e-6));
}

// Every SIMD target of this build that the CPU can run gives the same rotation.
void check_targets(std::vector<Check>& checks) {
  const Tensor<float, 4> x = random_heads({1, 3, 17, 81}, 6);
  const RopeConfig config{.head_dim = 81, .rotary_dim = 66};
  const std::string in_use = simd_target();
  const Tensor<float, 4> expected = rotated(x, config, 5);
  for (const std::string& target : simd_targets()) {
    if (target == in_use) continue;
    set_simd_target(target);
    checks.push_back(at_most("rotation on " + target + " against " + in_use,
                             largest_difference(rotated(x, config, 5), expected), 1e-6));
  }
  set_simd_target(in_use);
}

// ---- other encodings ----

void check_others(std::vector<Check>& checks) {
  const std::vector<float> slopes = alibi_slopes(8);
  double off = 0;
  for (std::size_t h = 0; h < 8; h++)
    off = std::max(off, std::fabs(slopes[h] - std::exp2(-1.0 - static_cast<double>(h))));
  checks.push_back(at_most("ALiBi slopes of 8 heads against 1/2, 1/4 ... 1/256", off, 0));
  checks.push_back(near("ALiBi slope 9 of 12, between the powers of two", alibi_slopes(12)[8], std::exp2(-0.5), 4e-8));
  checks.push_back(near("T5 bucket of distance -46", static_cast<double>(t5_bucket(-46, {})), 13, 0));
  const Tensor<float, 2> table = sinusoidal_table(200, 64);
  double worst = 0;
  for (std::int64_t t = 0; t + 17 < 200; t++)
    for (std::int64_t i = 0; i < 32; i++) {
      const double angle = 17.0 * std::pow(10000.0, -2.0 * static_cast<double>(i) / 64.0);
      const double mapped = std::cos(angle) * table(t, 2 * i) + std::sin(angle) * table(t, 2 * i + 1);
      worst = std::max(worst, std::fabs(table(t + 17, 2 * i) - mapped));
    }
  checks.push_back(at_most("sinusoidal: PE(p + 17) against a linear map of PE(p)", worst, 3e-7));
}

}  // namespace

std::vector<Check> position_checks() {
  std::vector<Check> checks;
  check_shapes(checks);
  check_frequencies(checks);
  check_relative_position(checks);
  check_rotation(checks);
  check_pairings(checks);
  check_scalings(checks);
  check_precision(checks);
  check_targets(checks);
  check_others(checks);
  return checks;
}

}  // namespace phasor::tool
