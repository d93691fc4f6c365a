// The mathematics of RoPE: properties, known numbers, precision.
#include "phasor/position/rope.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "phasor/core/random.h"
#include "phasor/position/forms.h"
#include "phasor/position/pairing.h"
#include "phasor/position/rotary.h"
#include "reference/rope.h"
#include "support/every_target.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kPastEveryLength = 300;  // of configs_of_every_type: dynamic and longrope are at work

Tensor<float, 4> random_heads(const Shape<4>& shape, std::uint64_t seed) {
  Tensor<float, 4> x(shape);
  Philox(seed).fill_normal(x);
  return x;
}

double dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; i++) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

Tensor<float, 4> rotated(const Tensor<float, 4>& x, const RotaryView& table, Rotation rotation = Rotation::forward) {
  Tensor<float, 4> result(x.shape());
  apply_rotary(x.view(), table, result.view(), rotation);
  return result;
}

Tensor<float, 4> rotated_at(const Tensor<float, 4>& x, const RopeConfig& config, std::int64_t first) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(x.shape()[2], first);
  return rotated(x, rotary_table(config, positions.view()));
}

// One config of every scaling, some partial, both pairings.
std::vector<RopeConfig> configs_of_every_type() {
  std::vector<RopeConfig> configs;
  for (const RopeType& type : rope_types())
    for (const Pairing pairing : {Pairing::half, Pairing::adjacent})
      for (const std::int64_t rotary_dim : {0, 32}) {
        RopeConfig config{.head_dim = 64, .rotary_dim = rotary_dim, .pairing = pairing, .max_position_embeddings = 256};
        config.scaling.type = type.name;
        const auto needs = [&](std::string_view key) {
          return std::ranges::find(type.required, key) != type.required.end();
        };
        const std::size_t pairs = rotary_dim == 0 ? 32 : 16;
        if (needs("factor")) config.scaling.factor = 4.0;
        if (needs("original_max_position_embeddings")) config.scaling.original_max_position_embeddings = 64;
        if (needs("low_freq_factor")) config.scaling.low_freq_factor = 1.0;
        if (needs("high_freq_factor")) config.scaling.high_freq_factor = 4.0;
        if (needs("short_factor")) config.scaling.short_factor.assign(pairs, 1.25);
        if (needs("long_factor")) config.scaling.long_factor.assign(pairs, 2.5);
        configs.push_back(config);
      }
  return configs;
}

// ---- properties ----

TEST(Rope, ScoresDependOnTheDistanceOnly) {
  const Tensor<float, 4> q = random_heads({1, 1, 1, 128}, 1), k = random_heads({1, 1, 1, 128}, 2);
  for (const Pairing pairing : {Pairing::half, Pairing::adjacent}) {
    const RopeConfig config{.head_dim = 128, .pairing = pairing};
    const auto score = [&](std::int64_t at_q, std::int64_t at_k) {
      return dot(rotated_at(q, config, at_q).data(), rotated_at(k, config, at_k).data(), 128);
    };
    EXPECT_NEAR(score(0, 2), score(3, 5), 2e-5);
    for (const std::int64_t shift : {std::int64_t{1}, std::int64_t{1000}, kMillion})
      EXPECT_NEAR(score(0, 2), score(shift, shift + 2), 2e-5) << shift;
    EXPECT_GT(std::fabs(score(0, 2) - score(0, 3)), 1e-2);
  }
}

TEST(Rope, NormsAreKeptAndTheTransposeIsTheInverse) {
  const Tensor<float, 4> x = random_heads({2, 3, 17, 64}, 3);
  for (const RopeConfig& config : configs_of_every_type()) {
    const Tensor<std::int64_t, 3> positions = consecutive_positions(17, kPastEveryLength);
    const AnyRotaryTable table = rotary_table(config, positions.view());
    const double m = rope_frequencies(config, kPastEveryLength + 17).attention_factor;
    const Tensor<float, 4> y = rotated(x, table), back = rotated(y, table, Rotation::transpose);
    const std::int64_t channels = 2 * RotaryView(table).pairs();
    for (std::int64_t row = 0; row < x.size() / 64; row++) {
      const float *from = x.data() + row * 64, *to = y.data() + row * 64, *again = back.data() + row * 64;
      EXPECT_NEAR(dot(to, to, channels), m * m * dot(from, from, channels), 2e-5 * m * m * dot(from, from, channels));
      for (std::int64_t i = 0; i < 64; i++)
        ASSERT_NEAR(again[i], from[i] * (i < channels ? m * m : 1.0), 2e-6 * m * m * (1.0 + std::fabs(from[i])))
            << config.scaling.type;
    }
  }
}

TEST(Rope, TransposeIsTheAdjoint) {
  const Tensor<float, 4> x = random_heads({1, 2, 17, 64}, 4), y = random_heads({1, 2, 17, 64}, 5);
  for (const RopeConfig& config : configs_of_every_type()) {
    const Tensor<std::int64_t, 3> positions = consecutive_positions(17, kPastEveryLength);
    const AnyRotaryTable table = rotary_table(config, positions.view());
    const Tensor<float, 4> turned_x = rotated(x, table), turned_y = rotated(y, table, Rotation::transpose);
    const double left = dot(turned_x.data(), y.data(), x.size()), right = dot(x.data(), turned_y.data(), x.size());
    EXPECT_NEAR(left, right, 1e-5 * std::sqrt(static_cast<double>(x.size()))) << config.scaling.type;
  }
}

TEST(Rope, AdjacentIsHalfOfPermutedChannels) {
  for (const std::int64_t rotary_dim : {64, 48}) {
    const Tensor<float, 4> x = random_heads({1, 2, 17, 64}, 6);
    RopeConfig config{.head_dim = 64, .rotary_dim = rotary_dim};
    const auto permuted = [&](const Tensor<float, 4>& from, Pairing to) {
      const std::vector<std::int64_t> permutation = pairing_permutation(to, 64, rotary_dim);
      Tensor<float, 4> result(from.shape());
      for (std::int64_t row = 0; row < from.size() / 64; row++)
        for (std::int64_t c = 0; c < 64; c++)
          result.data()[row * 64 + c] = from.data()[row * 64 + permutation[static_cast<std::size_t>(c)]];
      return result;
    };
    const Tensor<float, 4> by_half = permuted(rotated_at(permuted(x, Pairing::half), config, 9), Pairing::adjacent);
    config.pairing = Pairing::adjacent;
    const Tensor<float, 4> by_adjacent = rotated_at(x, config, 9);
    for (std::int64_t i = 0; i < x.size(); i++) ASSERT_EQ(by_half.data()[i], by_adjacent.data()[i]);
  }
}

// ---- precision ----

TEST(Rope, TablesAreExactAtAMillion) {
  const std::vector<long double> inv_freq = reference::plain_inv_freq(10000.0L, 128);
  on_every_target([&] {
    for (const std::int64_t position : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4095}, std::int64_t{131'071},
                                        std::int64_t{1'048'575}, std::int64_t{-7}, std::int64_t{1} << 31}) {
      const Tensor<std::int64_t, 3> positions = consecutive_positions(1, position);
      const HalfTable table = half_table({.head_dim = 128}, positions.view());
      for (std::size_t i = 0; i < 64; i++) {
        const long double angle = reference::angle(position, inv_freq[i]);
        EXPECT_NEAR(table.cos(0, 0, i), static_cast<double>(std::cos(angle)), position < 1'500'000 ? 6e-8 : 1e-6);
        EXPECT_NEAR(table.sin(0, 0, i), static_cast<double>(std::sin(angle)), position < 1'500'000 ? 6e-8 : 1e-6);
      }
    }
  });
}

TEST(Rope, Float32AnglesErrAtAMillionAsTransformersDo) {
  const std::vector<long double> inv_freq = reference::plain_inv_freq(10000.0L, 128);
  const Tensor<std::int64_t, 3> positions = consecutive_positions(1, 1'048'575);
  const HalfTable table = half_table({.head_dim = 128, .angles = Angles::float32}, positions.view());
  double largest = 0;
  for (std::size_t i = 0; i < 64; i++) {
    const double exact = static_cast<double>(std::sin(reference::angle(1'048'575, inv_freq[i])));
    largest = std::max(largest, std::fabs(table.sin(0, 0, i) - exact));
  }
  EXPECT_GT(largest, 1e-2);
  EXPECT_LT(largest, 5e-2);
}

// ---- known numbers ----

TEST(Rope, NumbersOfTheDetailedDocument) {  // head_dim 128, theta 10000, 16 positions
  const RopeFrequencies frequencies = rope_frequencies({.head_dim = 128});
  const std::vector<double>& w = frequencies.inv_freq;
  ASSERT_EQ(w.size(), 64u);
  double mean = 0;
  for (const double value : w) mean += value / 64.0;
  EXPECT_NEAR(w.back(), 0.000115, 5e-7);
  EXPECT_EQ(w.front(), 1.0);
  EXPECT_NEAR(mean, 0.116562, 5e-7);
  const double first[] = {1, 0.865964, 0.749894, 0.649382, 0.562341};
  for (std::size_t i = 0; i < 5; i++) EXPECT_NEAR(w[i], first[i], 5e-7);

  const Tensor<std::int64_t, 3> positions = consecutive_positions(16);
  const HalfTable table = half_table({.head_dim = 128}, positions.view());
  double off_unit = 0;
  for (std::int64_t i = 0; i < table.cos.size(); i++) {
    const float c = table.cos.data()[i], s = table.sin.data()[i];
    off_unit = std::max(off_unit, std::fabs(static_cast<double>(c * c + s * s) - 1.0));
  }
  EXPECT_LT(off_unit, 2.5e-7);
  const std::pair<std::int64_t, double> differences[] = {{0, 0.0}, {1, 0.1094}, {4, 0.1844}, {8, 0.1783}};
  for (const auto& [k, expected] : differences) {
    double sum = 0;
    for (std::int64_t t = 0; t + k < 16; t++)
      for (std::int64_t i = 0; i < 64; i++)
        sum += table.cos(0, t, i) * table.sin(0, t + k, i) - table.sin(0, t, i) * table.cos(0, t + k, i);
    EXPECT_NEAR(sum / static_cast<double>((16 - k) * 64), expected, 5e-5) << k;
  }
}

TEST(Rope, NtkAware) {
  EXPECT_NEAR(ntk_aware_theta(10000.0, 4.0, 128), 40889.94243249, 1e-6);
  const RopeFrequencies frequencies = rope_frequencies({.head_dim = 128, .scaling = {.type = "ntk", .factor = 4.0}});
  EXPECT_EQ(frequencies.inv_freq[0], 1.0);
  // The slowest pair is interpolated by exactly the factor: that is how the exponent is chosen.
  EXPECT_NEAR(frequencies.inv_freq[63] * 4.0, rope_frequencies({.head_dim = 128}).inv_freq[63], 1e-15);
}

TEST(Rope, DynamicBases) {
  const auto base = [](double factor, std::int64_t length) {
    const RopeFrequencies f = rope_frequencies(
        {.head_dim = 128, .scaling = {.type = "dynamic", .factor = factor}, .max_position_embeddings = 2048}, length);
    return std::pow(f.inv_freq[1], -64.0);
  };
  EXPECT_NEAR(base(2, 4096), 30527.74, 0.005);
  EXPECT_NEAR(base(4, 8192), 135401.97, 0.005);
  EXPECT_NEAR(base(2, 2048), 10000.0, 1e-6);
  EXPECT_NEAR(base(2, 0), 10000.0, 1e-6);
}

// Where a YaRN ramp begins and ends, seen from outside: the last kept and the first interpolated pair.
std::pair<std::int64_t, std::int64_t> kept_and_interpolated(const RopeConfig& config) {
  const std::vector<double> plain = rope_frequencies({.head_dim = config.head_dim, .theta = config.theta}).inv_freq;
  const std::vector<double> scaled = rope_frequencies(config).inv_freq;
  std::int64_t kept = -1, interpolated = static_cast<std::int64_t>(plain.size());
  for (std::size_t i = 0; i < plain.size(); i++) {
    const double ratio = scaled[i] / plain[i];
    if (std::fabs(ratio - 1.0) < 1e-12) kept = static_cast<std::int64_t>(i);
    if (std::fabs(ratio * *config.scaling.factor - 1.0) < 1e-12)
      interpolated = std::min(interpolated, static_cast<std::int64_t>(i));
  }
  return {kept, interpolated};
}

RopeConfig yarn(std::int64_t head_dim, double theta, std::int64_t original, double factor) {
  return {.head_dim = head_dim,
          .theta = theta,
          .scaling = {.type = "yarn", .factor = factor, .original_max_position_embeddings = original}};
}

TEST(Rope, YarnRamps) {
  using Bounds = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(kept_and_interpolated(yarn(64, 150000, 4096, 32)), (Bounds{8, 18}));
  EXPECT_EQ(kept_and_interpolated(yarn(128, 1e6, 32768, 4)), (Bounds{23, 40}));
  EXPECT_EQ(kept_and_interpolated(yarn(64, 1e4, 4096, 40)), (Bounds{10, 23}));
  RopeConfig loose = yarn(64, 150000, 4096, 32);  // 8.09 .. 17.40 when not truncated
  loose.scaling.truncate = false;
  EXPECT_EQ(kept_and_interpolated(loose), (Bounds{8, 18}));
  EXPECT_NE(rope_frequencies(loose).inv_freq[12], rope_frequencies(yarn(64, 150000, 4096, 32)).inv_freq[12]);
}

TEST(Rope, YarnClampOfMiniMind) {
  // The ramp ends at pair 35 of 32: clamped to the last pair it becomes steeper.
  RopeConfig config = yarn(64, 1e4, 131072, 16);
  const double wide = rope_frequencies(config).inv_freq[30];
  config.scaling.clamp_to_pairs = true;
  const double clamped = rope_frequencies(config).inv_freq[30];
  const double plain = rope_frequencies({.head_dim = 64}).inv_freq[30];
  const auto blend = [&](double end) {
    const double ramp = (30.0 - 22.0) / (end - 22.0);
    return plain * (ramp / 16.0 + 1.0 - ramp);
  };
  EXPECT_NEAR(wide, blend(35.0), 1e-15);
  EXPECT_NEAR(clamped, blend(31.0), 1e-15);
  RopeConfig minimind = yarn(96, 1e6, 2048, 16);
  minimind.scaling.clamp_to_pairs = true;
  minimind.scaling.attention_factor = 1.0;
  EXPECT_EQ(kept_and_interpolated(minimind), (std::pair<std::int64_t, std::int64_t>{8, 21}));
  EXPECT_EQ(rope_frequencies(minimind).attention_factor, 1.0);
}

TEST(Rope, AttentionFactors) {
  const std::pair<double, double> grown[] = {
      {4, 1.138629}, {16, 1.277259}, {32, 1.346574}, {40, 1.368888}, {64, 1.415888}};
  for (const auto& [factor, expected] : grown)
    EXPECT_NEAR(rope_frequencies(yarn(64, 1e4, 4096, factor)).attention_factor, expected, 5e-7);
  RopeConfig deepseek = yarn(64, 1e4, 4096, 40);
  deepseek.scaling.mscale = deepseek.scaling.mscale_all_dim = 1.0;
  deepseek.scores_follow_mscale = true;
  EXPECT_EQ(rope_frequencies(deepseek).attention_factor, 1.0);
  EXPECT_NEAR(rope_score_scale(deepseek, 192) * std::sqrt(192.0), 1.873854, 5e-7);
  EXPECT_NEAR(rope_score_scale({.head_dim = 64}, 64), 0.125, 1e-15);
}

TEST(Rope, Llama3Frequencies) {
  const RopeConfig config{.head_dim = 128,
                          .theta = 5e5,
                          .scaling = {.type = "llama3",
                                      .factor = 8.0,
                                      .original_max_position_embeddings = 8192,
                                      .low_freq_factor = 1.0,
                                      .high_freq_factor = 4.0}};
  const std::vector<double> w = rope_frequencies(config).inv_freq;
  const std::pair<std::size_t, double> expected[] = {
      {29, 2.16657076e-3}, {30, 1.37189357e-3}, {34, 1.78507813e-4}, {35, 9.55621235e-5}, {63, 3.06892599e-7}};
  for (const auto& [i, value] : expected) EXPECT_NEAR(w[i], value, 5e-9 * value) << i;
  EXPECT_EQ(kept_and_interpolated(config), (std::pair<std::int64_t, std::int64_t>{28, 35}));
}

TEST(Rope, LongropeSwitchesAfterTheOriginalLength) {
  RopeConfig config{.head_dim = 8, .max_position_embeddings = 131072};
  config.scaling = {.type = "longrope",
                    .original_max_position_embeddings = 4096,
                    .short_factor = {1, 1, 1, 1},
                    .long_factor = {2, 2, 2, 2}};
  EXPECT_EQ(rope_frequencies(config, 4096).inv_freq[0], 1.0);
  EXPECT_EQ(rope_frequencies(config, 4097).inv_freq[0], 0.5);
  EXPECT_NEAR(rope_frequencies(config, 1).attention_factor, 1.190238, 5e-7);
  // The plan is made from the positions: a sequence that reaches past the original length uses the long factors.
  const Tensor<std::int64_t, 3> near = consecutive_positions(2, 4094), far = consecutive_positions(2, 4095);
  EXPECT_NEAR(half_table(config, near.view()).cos(0, 0, 0), 1.190238 * std::cos(4094.0), 1e-6);
  EXPECT_NEAR(half_table(config, far.view()).cos(0, 0, 0), 1.190238 * std::cos(4095.0 / 2.0), 1e-6);
}

TEST(Rope, TextTokensOfMropeAreOrdinary) {
  RopeConfig plain{.head_dim = 128, .theta = 1e6};
  Tensor<std::int64_t, 3> same({3, 1, 17});
  for (std::int64_t a = 0; a < 3; a++)
    for (std::int64_t t = 0; t < 17; t++) same(a, 0, t) = t;
  const Tensor<std::int64_t, 3> positions = consecutive_positions(17);
  const HalfTable expected = half_table(plain, positions.view());
  for (const AxisLayout layout : {AxisLayout::chunked, AxisLayout::interleaved}) {
    RopeConfig config = plain;
    config.axes = layout;
    config.sections = {24, 20, 20};
    const HalfTable table = half_table(config, same.view());
    EXPECT_TRUE(std::equal(table.cos.begin(), table.cos.end(), expected.cos.begin()));
  }
}

// ---- pairing in the type ----

template <class Table>
concept HalfRotates = requires(TensorView<const float, 4> x, Table table) {
  apply_rotary_pos_emb(x, table);
};
static_assert(HalfRotates<HalfTable>);
static_assert(!HalfRotates<AdjacentTable>, "an adjacent table must not reach the half-split rotation");
static_assert(!std::is_convertible_v<AdjacentTable, HalfTable>);

TEST(Rope, TypedTablesRefuseTheOtherPairing) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(4);
  EXPECT_ERROR(half_table({.head_dim = 8, .pairing = Pairing::adjacent}, positions.view()), "adjacent",
               "expected half");
}

// ---- bad input ----

TEST(Rope, RefusesWhatCannotBeMeant) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_ERROR(validate({.head_dim = 0}), "[rope]", "head_dim: 0");
  EXPECT_ERROR(validate({.head_dim = 7}), "rotary_dim: 7", "even");
  EXPECT_ERROR(validate({.head_dim = 1 << 30}), "head_dim: 1073741824", "expected 2 to 65536");
  EXPECT_ERROR(validate({.head_dim = 8, .rotary_dim = 3}), "rotary_dim: 3");
  EXPECT_ERROR(validate({.head_dim = 8, .rotary_dim = 10}), "rotary_dim: 10", "head_dim 8");
  EXPECT_ERROR(validate({.head_dim = 8, .rotary_dim = -2}), "rotary_dim: -2");
  EXPECT_ERROR(validate({.head_dim = 8, .theta = nan}), "theta: nan");
  EXPECT_ERROR(validate({.head_dim = 8, .theta = inf}), "theta: inf");
  EXPECT_ERROR(validate({.head_dim = 8, .theta = -1.0}), "theta: -1");
  EXPECT_ERROR(validate({.head_dim = 8, .scaling = {.type = "ntk_yarn"}}), "\"ntk_yarn\"", "linear", "yarn");
  EXPECT_ERROR(validate({.head_dim = 8, .scaling = {.type = "linear"}}), "factor: missing", "linear");
  EXPECT_ERROR(validate({.head_dim = 8, .scaling = {.type = "linear", .factor = 0.5}}), "factor: 0.5", "at least 1");
  EXPECT_ERROR(validate({.head_dim = 8, .scaling = {.type = "linear", .factor = nan}}), "factor: nan");
  EXPECT_ERROR(validate({.head_dim = 8, .scaling = {.type = "default", .factor = 2.0}}), "factor: given", "default");
  EXPECT_ERROR(validate({.head_dim = 8, .scaling = {.type = "dynamic", .factor = 2.0}}), "max_position_embeddings: 0");
  EXPECT_ERROR(validate({.head_dim = 2, .scaling = {.type = "ntk", .factor = 2.0}}), "rotary_dim: 2", "d/(d-2)");
  EXPECT_ERROR(validate({.head_dim = 8, .axes = AxisLayout::chunked, .sections = {1, 1, 1}}), "sections: sum 3",
               "expected 4");
  EXPECT_ERROR(validate({.head_dim = 8, .axes = AxisLayout::chunked}), "sections: 0 given", "expected 3");
  EXPECT_ERROR(validate({.head_dim = 6, .axes = AxisLayout::axial}), "multiple of 4");
  EXPECT_ERROR(rope_frequencies({.head_dim = 8}, -1), "length: -1");
  EXPECT_ERROR(rope_frequencies(
                   {.head_dim = 8, .scaling = {.type = "dynamic", .factor = 1e300}, .max_position_embeddings = 1}, 9),
               "pair 1", "frequency 0");
  EXPECT_ERROR(rope_score_scale({.head_dim = 8}, 0), "head_dim: 0");
  EXPECT_ERROR(consecutive_positions(2, std::numeric_limits<std::int64_t>::max()), "positions: contain", "2^40");
  Tensor<std::int64_t, 3> far({1, 1, 1});
  far(0, 0, 0) = std::numeric_limits<std::int64_t>::max();
  EXPECT_ERROR(rotary_table({.head_dim = 8}, far.view()), "9223372036854775807", "2^40");
  EXPECT_ERROR(consecutive_positions(-1), "count: -1");
  const Tensor<std::int64_t, 3> positions = consecutive_positions(4);
  EXPECT_ERROR(rotary_table({.head_dim = 8}, positions.view(), -5), "length: -5");
  EXPECT_ERROR(rotary_table({.head_dim = 8, .axes = AxisLayout::axial}, positions.view()), "shape [1, 1, 4]", "2 axes");
}

}  // namespace
}  // namespace phasor
