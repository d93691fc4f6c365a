#include "phasor/layers/linear.h"

#include "layers/check_layer.h"
#include "phasor/core/parallel.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

void check(std::int64_t rows, std::int64_t inputs, std::int64_t outputs, bool bias) {
  SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(inputs) + " to " + std::to_string(outputs));
  InitialValues initial(1);
  Linear layer(inputs, outputs, bias, initial);
  RowLayer test{.rows = rows, .inputs = inputs, .outputs = outputs, .terms = std::max({rows, inputs, outputs})};
  layer.list_weights("", test.weights);
  test.step = [&](auto x, auto y, auto grad_y, auto grad_x) {
    layer.forward(x, y);
    layer.backward(x, grad_y, grad_x);
  };
  test.reference = [&](const Matrix& x, const std::vector<Values>& weights) {
    return reference::linear(x, weights[0], bias ? weights[1] : Values(), static_cast<std::size_t>(outputs));
  };
  RowLayerCheck(std::move(test)).run();
}

TEST(Linear, ValuesAndGradientsAreThoseOfTheReference) {
  check(1, 1, 1, true);
  check(17, 81, 17, true);
  check(81, 17, 197, false);
  check(197, 81, 33, true);
  check(3, 197, 300, true);
}

TEST(Linear, GradientOfASharedInputIsAddedTo) {
  InitialValues initial(1);
  Linear layer(17, 5, false, initial);
  Guarded<float, 2> x({9, 17}), grad_y({9, 5}), written({9, 17}), added({9, 17});
  fill_random(x, 1);
  fill_random(grad_y, 2);
  fill_random(added, 3);
  const Values before = values_of(added);
  layer.backward(x.view, grad_y.view, written.view);
  layer.backward(x.view, grad_y.view, added.view, Into::add);
  Values expected = values_of(written);
  for (std::size_t i = 0; i < expected.size(); i++) expected[i] += before[i];
  expect_near("grad_x", values_of(added), expected, tolerance(expected, 5));
  layer.weight().clear_gradient();
  layer.backward(x.view, grad_y.view, {});  // only the weight's
  const Values once = values_of(layer.weight().gradient());
  layer.backward(x.view, grad_y.view, {});
  for (std::size_t i = 0; i < once.size(); i++) EXPECT_NEAR(layer.weight().gradient()[i], 2 * once[i], 1e-5);
}

// Few rows of several layers share a region, more rows do not; bits are those of one layer after the other.
TEST(Linear, TogetherAsOneByOne) {
  InitialValues initial(1);
  const Linear first(600, 390, true, initial), second(600, 70, false, initial), third(600, 1, true, initial);
  for (const std::int64_t rows : {0, 1, 4, 5, 40}) {
    Guarded<float, 2> x({rows, 600}), a({rows, 390}), b({rows, 70}), c({rows, 1});
    fill_random(x, 1);
    first.forward(x.view, a.view), second.forward(x.view, b.view), third.forward(x.view, c.view);
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      Guarded<float, 2> together_a({rows, 390}), together_b({rows, 70}), together_c({rows, 1});
      Linear::forward_together(
          {{first, x.view, together_a.view}, {second, x.view, together_b.view}, {third, x.view, together_c.view}});
      EXPECT_EQ(values_of(together_a), values_of(a)) << rows << " rows, " << threads << " threads";
      EXPECT_EQ(values_of(together_b), values_of(b)) << rows << " rows, " << threads << " threads";
      EXPECT_EQ(values_of(together_c), values_of(c)) << rows << " rows, " << threads << " threads";
    }
    set_num_threads(0);
  }
}

TEST(Linear, BeginsAsTorchOrAsTransformersDo) {
  InitialValues fan_in(7), normal(7, Init::normal);
  Linear first(100, 300, true, fan_in), second(100, 300, true, normal);
  for (const float value : first.weight().value()) EXPECT_LE(std::fabs(value), 0.1f);
  EXPECT_NE(first.bias().value()[0], 0.0f);
  double squares = 0;
  for (const float value : second.weight().value()) squares += static_cast<double>(value) * value / 30000;
  EXPECT_NEAR(std::sqrt(squares), 0.02, 0.001);
  for (const float value : second.bias().value()) EXPECT_EQ(value, 0.0f);
}

TEST(Linear, NamesItsWeights) {
  InitialValues initial(1);
  Linear layer(2, 3, true, initial);
  NamedWeights weights;
  layer.list_weights("attention.q_proj", weights);
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights[0].name, "attention.q_proj.weight");
  EXPECT_EQ(weights[1].name, "attention.q_proj.bias");
  EXPECT_EQ(weights[0].weight->shape(), (std::vector<std::int64_t>{3, 2}));
}

TEST(Linear, ErrorsNameTheArgument) {
  InitialValues initial(1);
  Linear layer(4, 3, true, initial);
  Tensor<float, 2> x({2, 4}), wrong_x({2, 5}), y({2, 3}), wrong_y({1, 3});
  EXPECT_ERROR(layer.forward(wrong_x.view(), y.view()), "[Linear]", "x: [2, 5]", "expected [N, 4]");
  EXPECT_ERROR(layer.forward(x.view(), wrong_y.view()), "[Linear]", "y: [1, 3]", "expected [2, 3]");
  EXPECT_ERROR(layer.forward(TensorView<float, 2>(x.data(), {2, 4}, {1, 2}), y.view()), "[Linear]", "x: last stride 2",
               "expected 1");
  EXPECT_ERROR(layer.backward(x.view(), wrong_y.view(), {}), "[Linear]", "grad_y: [1, 3]", "expected [2, 3]");
  EXPECT_ERROR(layer.backward(x.view(), y.view(), wrong_x.view()), "[Linear]", "grad_x: [2, 5]", "expected [2, 4]");
  EXPECT_ERROR(Linear(0, 3, true, initial), "[Linear]", "inputs, outputs: 0, 3", "expected above 0");
}

}  // namespace
}  // namespace phasor
