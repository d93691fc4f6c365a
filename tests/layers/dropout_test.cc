#include "phasor/layers/dropout.h"

#include "layers/check_layer.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

// Elements in groups of 256: element i has word i / 64 of block i % 64 of its group.
float factor(const Dropout& settings, std::uint64_t i) {
  const std::uint64_t group = i / 256, within = i % 256;
  const std::uint32_t word = Philox(settings.seed, ~std::uint64_t{0}).block(group * 64 + within % 64)[within / 64];
  return word < static_cast<std::uint32_t>(settings.rate * 4294967296.0)
             ? 0.0f
             : static_cast<float>(1.0 / (1.0 - settings.rate));
}

TEST(Dropout, FollowsThePhiloxOfTheSeed) {
  for (const Shape<2>& shape : {Shape<2>{1, 1}, Shape<2>{17, 81}, Shape<2>{300, 197}, Shape<2>{3, 1024}})
    for (const double rate : {0.0, 0.1, 0.5}) {
      const Dropout settings{.rate = rate, .seed = 0x123456789abcdef};
      Guarded<float, 2> x(shape, {.gap = 3});
      fill_random(x, 1);
      on_every_target([&] {
        for (const int threads : {1, 2, 3, 5}) {
          set_num_threads(threads);
          Guarded<float, 2> y(shape, {.gap = 1});
          dropout(settings, x.view, y.view);
          y.expect_guards("y");
          for (std::int64_t n = 0; n < shape[0]; n++)
            for (std::int64_t c = 0; c < shape[1]; c++)
              ASSERT_EQ(y.view(n, c), x.view(n, c) * factor(settings, static_cast<std::uint64_t>(n * shape[1] + c)));
        }
      });
      set_num_threads(0);
    }
}

// The gradient is the same function; dropped elements are 0 whatever x was; the share of them is the rate.
TEST(Dropout, DropsTheRateOfElementsAlsoInPlace) {
  Tensor<float, 2> x({200, 500}), infinite({200, 500});
  std::fill(x.begin(), x.end(), 1.0f);
  std::fill(infinite.begin(), infinite.end(), INFINITY);
  dropout({.rate = 0.3, .seed = 3}, x.view(), x.view());
  dropout({.rate = 0.3, .seed = 3}, infinite.view(), infinite.view());
  double dropped = 0;
  for (std::int64_t i = 0; i < x.size(); i++) {
    dropped += x.data()[i] == 0.0f;
    EXPECT_EQ(infinite.data()[i] == 0.0f, x.data()[i] == 0.0f);
    EXPECT_TRUE(x.data()[i] == 0.0f || x.data()[i] == static_cast<float>(1 / 0.7));
  }
  EXPECT_NEAR(dropped / 100000, 0.3, 4 * std::sqrt(0.3 * 0.7 / 100000));
}

TEST(Dropout, OtherSeedsDropOthers) {
  Tensor<float, 2> x({1, 1000}), a({1, 1000}), b({1, 1000});
  std::fill(x.begin(), x.end(), 1.0f);
  dropout({.rate = 0.5, .seed = 1}, x.view(), a.view());
  dropout({.rate = 0.5, .seed = 2}, x.view(), b.view());
  int different = 0;
  for (std::int64_t i = 0; i < 1000; i++) different += a.data()[i] != b.data()[i];
  EXPECT_NEAR(different, 500, 80);
}

TEST(Dropout, ErrorsNameTheArgument) {
  Tensor<float, 2> x({2, 4}), y({2, 5});
  EXPECT_ERROR(dropout({.rate = 1.0}, x.view(), x.view()), "[dropout]", "rate: 1", "expected in [0, 1)");
  EXPECT_ERROR(dropout({.rate = -0.1}, x.view(), x.view()), "[dropout]", "rate: -0.1", "expected in [0, 1)");
  EXPECT_ERROR(dropout({.rate = NAN}, x.view(), x.view()), "[dropout]", "rate: nan", "expected in [0, 1)");
  EXPECT_ERROR(dropout({.rate = 0.1}, x.view(), y.view()), "[dropout]", "y: [2, 5]", "expected [2, 4]");
}

}  // namespace
}  // namespace phasor
