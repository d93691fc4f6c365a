// apply_rotary against the double reference: random shapes, strides, types and options on every SIMD target.
#include "phasor/position/rotary.h"

#include <cmath>
#include <cstring>
#include <random>

#include "phasor/core/parallel.h"
#include "phasor/core/random.h"
#include "phasor/position/rope.h"
#include "reference/rope.h"
#include "support/every_target.h"
#include "support/expect_error.h"
#include "support/seeds.h"

namespace phasor {
namespace {

struct Case {
  Shape<4> shape;
  std::int64_t pairs;
  Pairing pairing;
  Rotation rotation;
  bool heads_inside;  // [B, T, H, D] memory
  bool shared_table;  // one row of positions for all sequences
  bool in_place;
  std::int64_t gap;  // unused elements between rows
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << shape_text(c.shape) << " pairs " << c.pairs << ' ' << pairing_name(c.pairing)
             << (c.rotation == Rotation::transpose ? " transpose" : "") << (c.heads_inside ? " BTHD" : " BHTD")
             << (c.shared_table ? " shared" : "") << (c.in_place ? " in place" : "") << " gap " << c.gap;
}

Case random_case(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<std::int64_t> from) { return from.begin()[random() % from.size()]; };
  Case c;
  c.shape = {pick({1, 2, 3}), pick({1, 2, 5, 17}), pick({1, 2, 17, 65, 81, 197}), pick({2, 6, 17, 40, 64, 81, 128})};
  c.pairs = c.shape[3] / 2;
  if (random() % 2) c.pairs = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(c.pairs));
  c.pairing = random() % 2 ? Pairing::half : Pairing::adjacent;
  c.rotation = random() % 2 ? Rotation::forward : Rotation::transpose;
  c.heads_inside = random() % 2;
  c.shared_table = random() % 2;
  c.in_place = random() % 2;
  c.gap = pick({0, 0, 1, 7});
  return c;
}

// A tensor of the case's memory layout with guard elements around and between its rows.
template <class T>
struct Guarded {
  std::vector<T> memory;
  TensorView<T, 4> view;

  explicit Guarded(const Case& c) {
    const auto [b, h, t, d] = c.shape;
    const std::int64_t row = d + c.gap;
    memory.assign(static_cast<std::size_t>(b * h * t * row + 2 * kGuard), T(kGuardValue));
    view.data = memory.data() + kGuard;
    view.shape = c.shape;
    view.strides = c.heads_inside ? Shape<4>{t * h * row, row, h * row, 1} : Shape<4>{h * t * row, t * row, row, 1};
  }
  // Elements that belong to no row still hold the guard value.
  void expect_guards() const {
    std::vector<bool> used(memory.size(), false);
    const auto [b, h, t, d] = view.shape;
    for (std::int64_t i = 0; i < b; i++)
      for (std::int64_t j = 0; j < h; j++)
        for (std::int64_t k = 0; k < t; k++)
          for (std::int64_t l = 0; l < d; l++) used[static_cast<std::size_t>(&view(i, j, k, l) - memory.data())] = true;
    for (std::size_t i = 0; i < memory.size(); i++)
      if (!used[i]) {
        ASSERT_EQ(static_cast<float>(memory[i]), kGuardValue) << "guard " << i;
      }
  }

  static constexpr std::int64_t kGuard = 33;
  static constexpr float kGuardValue = -77.0f;
};

double ulp(float) { return std::exp2(-23.0); }
double ulp(bf16) { return std::exp2(-7.0); }
double ulp(f16) { return std::exp2(-10.0); }

// Unlike a real table cos and sin are independent: nothing can rely on cos^2 + sin^2 = 1.
Tensor<float, 3> random_table(const Case& c, std::uint64_t seed) {
  Tensor<float, 3> table({c.shared_table ? 1 : c.shape[0], c.shape[2] + 3, c.pairs});
  Philox(seed).fill_normal(table);
  return table;
}

template <class T>
void expect_equals_reference(const Case& c, std::uint64_t seed) {
  Guarded<T> x(c), out(c);
  const Philox random(seed);
  std::uint64_t n = 0;
  const auto [batch, heads, tokens, channels] = c.shape;
  std::vector<std::vector<double>> inputs;
  for (std::int64_t b = 0; b < batch; b++)
    for (std::int64_t h = 0; h < heads; h++)
      for (std::int64_t t = 0; t < tokens; t++) {
        inputs.emplace_back();
        for (std::int64_t i = 0; i < channels; i++) {
          x.view(b, h, t, i) = T(random.normal(n++));
          inputs.back().push_back(static_cast<float>(x.view(b, h, t, i)));
        }
      }
  const Tensor<float, 3> cos = random_table(c, seed + 1), sin = random_table(c, seed + 2);
  const RotaryView table(cos.view(), sin.view(), c.pairing);
  const Guarded<T>& result = c.in_place ? x : out;
  if (c.in_place)
    apply_rotary(x.view, table, c.rotation);
  else
    apply_rotary(TensorView<const T, 4>(x.view), table, out.view, c.rotation);

  x.expect_guards();
  out.expect_guards();
  std::size_t row = 0;
  for (std::int64_t b = 0; b < batch; b++)
    for (std::int64_t h = 0; h < heads; h++)
      for (std::int64_t t = 0; t < tokens; t++, row++) {
        const std::int64_t table_b = c.shared_table ? 0 : b;
        std::vector<double> row_cos, row_sin;
        double largest = 0;
        for (std::int64_t i = 0; i < c.pairs; i++) {
          row_cos.push_back(cos(table_b, t, i));
          row_sin.push_back(sin(table_b, t, i));
        }
        const std::vector<double> expected =
            reference::rotate(inputs[row], row_cos, row_sin, c.pairing, c.rotation == Rotation::transpose);
        for (const double value : expected) largest = std::max(largest, std::fabs(value));
        for (std::int64_t i = 0; i < channels; i++) {
          const double value = expected[static_cast<std::size_t>(i)];
          // Storage rounds once, by half a unit of the value's last place; float arithmetic adds its own 2 ulp.
          const double allowed = 2 * ulp(1.0f) * largest + 0.5 * ulp(T()) * std::fabs(value) + 1e-7;
          ASSERT_NEAR(static_cast<float>(result.view(b, h, t, i)), value, allowed)
              << c << " at " << b << ' ' << h << ' ' << t << ' ' << i;
          if (i >= 2 * c.pairs) {
            ASSERT_EQ(static_cast<float>(result.view(b, h, t, i)), value);
          }
        }
      }
}

template <class T>
void expect_random_cases_equal_reference(std::uint32_t first) {
  for (const std::uint32_t seed : seeds({.first = first, .count = 120})) {
    SCOPED_TRACE(repeat_seed(seed));
    std::mt19937 random(seed);
    const Case c = random_case(random);
    on_every_target([&] { expect_equals_reference<T>(c, seed); });
  }
}

TEST(Rotary, FloatEqualsReference) { expect_random_cases_equal_reference<float>(1000); }
TEST(Rotary, Bf16EqualsReference) { expect_random_cases_equal_reference<bf16>(2000); }
TEST(Rotary, F16EqualsReference) { expect_random_cases_equal_reference<f16>(3000); }

TEST(Rotary, SameBitsForAnyThreadCount) {
  const Shape<4> shape{2, 17, 197, 64};
  Tensor<float, 4> x(shape), first(shape), other(shape);
  Philox(5).fill_normal(x);
  const Tensor<std::int64_t, 3> positions = consecutive_positions(197);
  set_num_threads(1);
  const HalfTable one = half_table({.head_dim = 64}, positions.view());
  apply_rotary(std::as_const(x).view(), one, first.view());
  for (const int threads : {2, 3, 5}) {
    set_num_threads(threads);
    const HalfTable table = half_table({.head_dim = 64}, positions.view());
    EXPECT_EQ(std::memcmp(table.cos.data(), one.cos.data(), sizeof(float) * static_cast<std::size_t>(one.cos.size())),
              0);
    apply_rotary(std::as_const(x).view(), table, other.view());
    EXPECT_EQ(std::memcmp(first.data(), other.data(), sizeof(float) * static_cast<std::size_t>(first.size())), 0);
  }
  set_num_threads(0);
}

TEST(Rotary, EmptyTensorsAreLegal) {
  for (const Shape<4>& shape : {Shape<4>{0, 2, 3, 8}, {2, 0, 3, 8}, {2, 2, 0, 8}}) {
    Tensor<float, 4> x(shape);
    const Tensor<std::int64_t, 3> positions = consecutive_positions(shape[2]);
    apply_rotary(x.view(), half_table({.head_dim = 8}, positions.view()));
  }
}

TEST(Rotary, RefusesWhatDoesNotFit) {
  Tensor<float, 4> x({2, 3, 5, 8}), out({2, 3, 5, 8}), other({2, 3, 5, 6});
  const Tensor<float, 3> table({1, 5, 4}), short_table({1, 4, 4}), wide({1, 5, 5}), batches({3, 5, 4}), sin({1, 5, 3});
  const TensorView<const float, 4> from = x.view();
  const auto view = [](const Tensor<float, 3>& t) { return RotaryView(t.view(), t.view(), Pairing::half); };
  EXPECT_ERROR(apply_rotary(from, view(table), other.view()), "[apply_rotary]", "out: shape [2, 3, 5, 6]",
               "expected [2, 3, 5, 8]");
  EXPECT_ERROR(apply_rotary(from, view(short_table), out.view()), "table: 4 tokens", "at least 5");
  EXPECT_ERROR(apply_rotary(from, view(wide), out.view()), "rotates 10 channels", "at most 8");
  EXPECT_ERROR(apply_rotary(from, view(batches), out.view()), "3 sequences", "1 or 2");
  EXPECT_ERROR(apply_rotary(from, RotaryView(table.view(), sin.view(), Pairing::half), out.view()), "cos of shape",
               "sin of shape [1, 1, 5, 3]");
  EXPECT_ERROR(apply_rotary(TensorView<float, 4>(x.data(), {1, 1, 5, 8}, {0, 0, 1, 5}), view(table)), "last stride 5",
               "expected 1");
  EXPECT_ERROR(apply_rotary(TensorView<const float, 4>(x.data(), {1, 1, 5, 8}), view(table),
                            TensorView<float, 4>(x.data() + 8, {1, 1, 5, 8})),
               "overlaps");
  EXPECT_ERROR(apply_rotary(TensorView<float, 4>(x.data(), {4, 1, 1, 8}, {0, 8, 8, 1}), view(table)),
               "stride 0 in dimension 0");
}

}  // namespace
}  // namespace phasor
