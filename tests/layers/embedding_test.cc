#include "phasor/layers/embedding.h"

#include "layers/check_layer.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

Tensor<std::int32_t, 2> random_tokens(const Shape<2>& shape, std::int64_t vocabulary) {
  Tensor<std::int32_t, 2> tokens(shape);
  std::uint64_t i = 0;
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(Philox(5).block(i++)[0] % static_cast<std::uint64_t>(vocabulary));
  return tokens;
}

TEST(Embedding, GivesRowsAndSumsTheirGradients) {
  InitialValues initial(1);
  for (const std::int64_t channels : {1, 17, 300}) {
    Embedding layer(11, channels, initial);
    const Tensor<std::int32_t, 2> tokens = random_tokens({3, 81}, 11);
    Guarded<float, 3> y({3, 81, channels}, {.gap = 2}), grad_y({3, 81, channels}, {.gap = 1});
    fill_random(grad_y, 3);
    Values expected(static_cast<std::size_t>(11 * channels), 0.25);
    for (std::int64_t b = 0; b < 3; b++)
      for (std::int64_t t = 0; t < 81; t++)
        for (std::int64_t c = 0; c < channels; c++)
          expected[static_cast<std::size_t>(tokens(b, t) * channels + c)] += grad_y.view(b, t, c);
    on_every_target([&] {
      Values first;
      for (const int threads : {1, 2, 3, 5}) {
        set_num_threads(threads);
        std::ranges::fill(layer.weight().gradient(), 0.25f);
        y.reset();
        layer.forward(tokens.view(), y.view);
        layer.backward(tokens.view(), grad_y.view);
        for (std::int64_t b = 0; b < 3; b++)
          for (std::int64_t t = 0; t < 81; t++)
            for (std::int64_t c = 0; c < channels; c++)
              ASSERT_EQ(y.view(b, t, c), layer.weight().matrix()(tokens(b, t), c));
        y.expect_guards("y");
        const Values gradient = values_of(layer.weight().gradient());
        expect_near("gradient", gradient, expected, tolerance(expected, 81));
        if (threads == 1) first = gradient;
        EXPECT_EQ(gradient, first) << threads << " threads";
      }
    });
    set_num_threads(0);
  }
}

TEST(Embedding, BeginsAsTorchOrAsTransformersDo) {
  for (const auto& [init, deviation] : {std::pair(Init::fan_in, 1.0), std::pair(Init::normal, 0.02)}) {
    InitialValues initial(7, init);
    Embedding layer(100, 300, initial);
    double squares = 0;
    for (const float value : layer.weight().value()) squares += static_cast<double>(value) * value / 30000;
    EXPECT_NEAR(std::sqrt(squares), deviation, 0.03 * deviation);
  }
}

TEST(Embedding, ErrorsNameTheTokenAndItsPlace) {
  InitialValues initial(1);
  Embedding layer(10, 4, initial);
  Tensor<std::int32_t, 2> tokens({2, 3});
  Tensor<float, 3> y({2, 3, 4}), wrong({2, 3, 5});
  EXPECT_ERROR(layer.forward(tokens.view(), wrong.view()), "[Embedding]", "y: [2, 3, 5]", "expected [2, 3, 4]");
  EXPECT_ERROR(layer.backward(tokens.view(), wrong.view()), "[Embedding]", "grad_y: [2, 3, 5]", "expected [2, 3, 4]");
  tokens(1, 2) = 10;
  EXPECT_ERROR(layer.forward(tokens.view(), y.view()), "[Embedding]", "tokens: 10 at [1, 2]", "expected 0 to 9");
  tokens(1, 2) = -1;
  EXPECT_ERROR(layer.backward(tokens.view(), y.view()), "[Embedding]", "tokens: -1 at [1, 2]", "expected 0 to 9");
  EXPECT_ERROR(Embedding(0, 4, initial), "[Embedding]", "vocabulary, channels: 0, 4", "expected above 0");
}

}  // namespace
}  // namespace phasor
