// How weights begin.
#include "phasor/layers/initial_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "phasor/layers/block.h"

namespace phasor {
namespace {

TEST(InitialValues, FanInIsUniformWithinItsBound) {
  std::vector<float> values(100000);
  InitialValues(1).fill(values, 16);
  double sum = 0, squares = 0;
  for (const float value : values) {
    ASSERT_LE(std::fabs(value), 0.25f);
    sum += value, squares += value * value;
  }
  EXPECT_NEAR(sum / 1e5, 0, 5 * 0.25 / std::sqrt(3e5));                 // five deviations of the mean
  EXPECT_NEAR(squares / 1e5, 0.0625 / 3, 5 * 0.0625 / std::sqrt(1e5));  // a uniform number's square is 1/3
}

TEST(InitialValues, NormalHasItsDeviation) {
  std::vector<float> values(100000);
  InitialValues(1, Init::normal).fill(values, 16);
  double sum = 0, squares = 0;
  for (const float value : values) sum += value, squares += value * value;
  EXPECT_NEAR(sum / 1e5, 0, 5 * 0.02 / std::sqrt(1e5));
  EXPECT_NEAR(std::sqrt(squares / 1e5), 0.02, 5 * 0.02 / std::sqrt(2e5));
}

TEST(InitialValues, SeedsAndStreams) {
  const auto draw = [](InitialValues& initial) {
    std::vector<float> values(100);
    initial.fill(values, 4);
    return values;
  };
  InitialValues one(1), same(1), other(2);
  const std::vector<float> first = draw(one);
  EXPECT_EQ(draw(same), first);
  EXPECT_NE(draw(other), first);
  EXPECT_NE(draw(one), first);  // the next weight has a stream of its own
}

// Every matrix of a model begins with numbers of its own; norms begin at 1, tau at 1; equal seeds make equal models.
TEST(InitialValues, OfAWholeBlock) {
  const BlockConfig config{.hidden_size = 16, .num_attention_heads = 2, .intermediate_size = 16};
  InitialValues initial(7), same(7);
  W2Block block(config, initial), twin(config, same);
  NamedWeights weights, twins;
  block.list_weights("", weights);
  twin.list_weights("", twins);
  for (std::size_t i = 0; i < weights.size(); i++) {
    const std::span<const float> values = std::as_const(*weights[i].weight).value();
    EXPECT_TRUE(std::ranges::equal(values, std::as_const(*twins[i].weight).value())) << weights[i].name;
    const bool matrix = weights[i].weight->shape().size() == 2;
    for (const float value : values) EXPECT_TRUE(matrix || value == 1.0f) << weights[i].name;
    for (std::size_t j = 0; j < i && matrix; j++)
      EXPECT_FALSE(std::ranges::equal(values, std::as_const(*weights[j].weight).value()))
          << weights[i].name << " is " << weights[j].name;
  }
}

}  // namespace
}  // namespace phasor
