// RoPE as papers and other codebases write it, and the conversion between pairings.
#include "phasor/position/forms.h"

#include <cmath>

#include "phasor/core/random.h"
#include "phasor/position/pairing.h"
#include "phasor/position/rotary.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

Tensor<float, 4> random_heads(const Shape<4>& shape, std::uint64_t seed) {
  Tensor<float, 4> x(shape);
  Philox(seed).fill_normal(x);
  return x;
}

TEST(Forms, RopeEmbeddingsAreHalfWide) {
  const AdjacentTable table = generate_rope_embeddings(16, 64);
  EXPECT_EQ(table.cos.shape(), (Shape<3>{1, 16, 32}));
  EXPECT_NEAR(table.sin(0, 3, 1), std::sin(3.0 * std::pow(10000.0, -2.0 / 64.0)), 6e-8);
  EXPECT_ERROR(generate_rope_embeddings(16, 63), "rotary_dim: 63");
  EXPECT_ERROR(generate_rope_embeddings(-1, 64), "count: -1");
}

// LLaMA multiplies adjacent pairs, read as complex numbers, by freqs_cis: the same as our adjacent rotation.
TEST(Forms, ComplexFormIsTheAdjacentRotation) {
  const Tensor<std::complex<float>, 2> freqs_cis = precompute_freqs_cis(64, 16);
  ASSERT_EQ(freqs_cis.shape(), (Shape<2>{16, 32}));
  Tensor<float, 4> x = random_heads({1, 2, 16, 64}, 1);
  const Tensor<float, 4> original = x;
  apply_rotary(x.view(), generate_rope_embeddings(16, 64));
  for (std::int64_t h = 0; h < 2; h++)
    for (std::int64_t t = 0; t < 16; t++)
      for (std::int64_t i = 0; i < 32; i++) {
        const std::complex<float> pair(original(0, h, t, 2 * i), original(0, h, t, 2 * i + 1));
        const std::complex<float> rotated = pair * freqs_cis(t, i);
        ASSERT_NEAR(x(0, h, t, 2 * i), rotated.real(), 1e-6);
        ASSERT_NEAR(x(0, h, t, 2 * i + 1), rotated.imag(), 1e-6);
      }
}

TEST(Forms, FullWidthRepeatsEachAngle) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(5);
  const HalfTable half = half_table({.head_dim = 8}, positions.view());
  const AdjacentTable adjacent = generate_rope_embeddings(5, 8);
  const WideTable by_halves = full_width(half), by_pairs = full_width(adjacent);
  EXPECT_EQ(by_halves.cos.shape(), (Shape<3>{1, 5, 8}));
  for (std::int64_t t = 0; t < 5; t++)
    for (std::int64_t i = 0; i < 4; i++) {
      EXPECT_EQ(by_halves.cos(0, t, i), half.cos(0, t, i));
      EXPECT_EQ(by_halves.sin(0, t, i + 4), half.sin(0, t, i));
      EXPECT_EQ(by_pairs.cos(0, t, 2 * i), adjacent.cos(0, t, i));
      EXPECT_EQ(by_pairs.sin(0, t, 2 * i + 1), adjacent.sin(0, t, i));
    }
}

TEST(Forms, WideTableFromPositionIds) {  // cos, sin of shape (bs, seq, head_dim)
  Tensor<std::int64_t, 2> position_ids({2, 3});
  for (std::int64_t i = 0; i < 6; i++) position_ids.data()[i] = 10 * i;
  const WideTable wide = wide_table({.head_dim = 128, .theta = 1e6}, position_ids.view());
  ASSERT_EQ(wide.cos.shape(), (Shape<3>{2, 3, 128}));
  for (const std::int64_t channel : {5, 69}) {
    const double angle = 40.0 * std::pow(1e6, -2.0 * 5.0 / 128.0);
    EXPECT_NEAR(wide.cos(1, 1, channel), std::cos(angle), 6e-8);
    EXPECT_NEAR(wide.sin(1, 1, channel), std::sin(angle), 6e-8);
  }
}

TEST(Forms, RotateHalfFormula) {
  const Tensor<float, 4> x = random_heads({2, 3, 5, 8}, 2);
  const Tensor<float, 4> rotated = rotate_half(x.view());
  EXPECT_EQ(rotated(1, 2, 3, 1), -x(1, 2, 3, 5));
  EXPECT_EQ(rotated(1, 2, 3, 5), x(1, 2, 3, 1));

  const Tensor<std::int64_t, 3> positions = consecutive_positions(5, 3);
  const HalfTable table = half_table({.head_dim = 8}, positions.view());
  const WideTable wide = full_width(table);
  const Tensor<float, 4> result = apply_rotary_pos_emb(x.view(), table);
  for (std::int64_t t = 0; t < 5; t++)
    for (std::int64_t c = 0; c < 8; c++)
      EXPECT_NEAR(result(1, 2, t, c), x(1, 2, t, c) * wide.cos(0, t, c) + rotated(1, 2, t, c) * wide.sin(0, t, c),
                  1e-6);
  const Tensor<float, 4> odd({1, 1, 1, 7});
  EXPECT_ERROR(rotate_half(odd.view()), "last dimension 7");
}

// <R_m q, R_n k> = <q, R_(n-m) k>: shown with matrices.
TEST(Forms, RotationMatrixHasTheRelativeProperty) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(12);
  for (const Pairing pairing : {Pairing::half, Pairing::adjacent}) {
    const AnyRotaryTable table = rotary_table({.head_dim = 8, .rotary_dim = 6, .pairing = pairing}, positions.view());
    const Tensor<float, 2> r4 = rotation_matrix(table, 0, 4, 8), r9 = rotation_matrix(table, 0, 9, 8);
    const Tensor<float, 2> r5 = rotation_matrix(table, 0, 5, 8);
    for (std::int64_t i = 0; i < 8; i++)
      for (std::int64_t j = 0; j < 8; j++) {
        double product = 0;  // (R_4^T R_9)(i, j)
        for (std::int64_t c = 0; c < 8; c++) product += static_cast<double>(r4(c, i)) * r9(c, j);
        EXPECT_NEAR(product, r5(i, j), 2e-7);
      }
    Tensor<float, 4> x = random_heads({1, 1, 12, 8}, 3);
    const Tensor<float, 4> original = x;
    apply_rotary(x.view(), table);
    for (std::int64_t i = 0; i < 8; i++) {
      double sum = 0;
      for (std::int64_t c = 0; c < 8; c++) sum += static_cast<double>(r9(i, c)) * original(0, 0, 9, c);
      EXPECT_NEAR(x(0, 0, 9, i), sum, 1e-6);
    }
    EXPECT_ERROR(rotation_matrix(table, 0, 12, 8), "row: (0, 12)");
    EXPECT_ERROR(rotation_matrix(table, 0, 1, 4), "head_dim: 4", "at least 6");
  }
}

// ---- pairing ----

TEST(ConvertPairing, IsTheWellKnownReshape) {  // new[j d/2 + i] = old[2i + j]
  Tensor<float, 1> adjacent({8});
  for (std::int64_t i = 0; i < 8; i++) adjacent(i) = static_cast<float>(i);
  const Tensor<float, 1> half = convert_pairing(adjacent, 1, Pairing::half);
  EXPECT_EQ(std::vector<float>(half.begin(), half.end()), (std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(ConvertPairing, RoundTripOfWeightsAndBiases) {
  Tensor<float, 2> weight({3 * 10, 7});
  Tensor<bf16, 1> bias({30});
  Philox(1).fill_normal(weight);
  for (std::int64_t i = 0; i < 30; i++) bias(i) = bf16(static_cast<float>(i));
  for (const std::int64_t rotary_dim : {0, 6}) {
    const Tensor<float, 2> there = convert_pairing(weight, 3, Pairing::half, rotary_dim);
    const Tensor<float, 2> back = convert_pairing(there, 3, Pairing::adjacent, rotary_dim);
    EXPECT_TRUE(std::equal(weight.begin(), weight.end(), back.begin()));
    EXPECT_FALSE(std::equal(weight.begin(), weight.end(), there.begin()));
    const Tensor<bf16, 1> bias_back =
        convert_pairing(convert_pairing(bias, 3, Pairing::half, rotary_dim), 3, Pairing::adjacent, rotary_dim);
    for (std::int64_t i = 0; i < 30; i++) EXPECT_EQ(bias_back(i).bits, bias(i).bits);
  }
}

// A projection followed by the adjacent rotation gives the same scores as the converted one by the half-split rotation.
TEST(ConvertPairing, KeepsScores) {
  constexpr std::int64_t kHeads = 2, kDim = 12, kWidth = 5, kTokens = 7;
  for (const std::int64_t rotary_dim : {12, 8}) {
    Tensor<float, 2> wq({kHeads * kDim, kWidth}), wk({kHeads * kDim, kWidth}), x({kTokens, kWidth});
    Philox(1).fill_normal(wq);
    Philox(2).fill_normal(wk);
    Philox(3).fill_normal(x);
    const auto projected = [&](const Tensor<float, 2>& w, Pairing pairing) {
      Tensor<float, 4> y({1, kHeads, kTokens, kDim});
      for (std::int64_t r = 0; r < kHeads * kDim; r++)
        for (std::int64_t t = 0; t < kTokens; t++)
          for (std::int64_t c = 0; c < kWidth; c++) y(0, r / kDim, t, r % kDim) += w(r, c) * x(t, c);
      const Tensor<std::int64_t, 3> positions = consecutive_positions(kTokens);
      apply_rotary(y.view(),
                   rotary_table({.head_dim = kDim, .rotary_dim = rotary_dim, .pairing = pairing}, positions.view()));
      return y;
    };
    const Tensor<float, 4> q = projected(wq, Pairing::adjacent), k = projected(wk, Pairing::adjacent);
    const Tensor<float, 4> q2 = projected(convert_pairing(wq, kHeads, Pairing::half, rotary_dim), Pairing::half);
    const Tensor<float, 4> k2 = projected(convert_pairing(wk, kHeads, Pairing::half, rotary_dim), Pairing::half);
    for (std::int64_t h = 0; h < kHeads; h++)
      for (std::int64_t i = 0; i < kTokens; i++)
        for (std::int64_t j = 0; j < kTokens; j++) {
          double before = 0, after = 0;
          for (std::int64_t c = 0; c < kDim; c++) {
            before += static_cast<double>(q(0, h, i, c)) * k(0, h, j, c);
            after += static_cast<double>(q2(0, h, i, c)) * k2(0, h, j, c);
          }
          ASSERT_NEAR(before, after, 1e-9);
        }
  }
}

TEST(ConvertPairing, RefusesWhatDoesNotFit) {
  const Tensor<float, 2> weight({10, 3});
  EXPECT_ERROR(convert_pairing(weight, 3, Pairing::half), "[10, 3]", "multiple of heads 3");
  EXPECT_ERROR(convert_pairing(weight, 2, Pairing::half), "rotary_dim: 5", "even");
  EXPECT_ERROR(convert_pairing(weight, 1, Pairing::half, 12), "rotary_dim: 12", "head_dim 10");
}

}  // namespace
}  // namespace phasor
