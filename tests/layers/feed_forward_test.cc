#include "phasor/layers/feed_forward.h"

#include "layers/check_layer.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

struct Size {
  std::int64_t rows, channels, hidden;
};
constexpr Size kSizes[] = {{1, 1, 1}, {17, 81, 17}, {33, 17, 197}, {81, 20, 33}};

RowLayer row_layer(FeedForward& layer, Workspace& workspace, FeedForward::Saved& saved, const Size& size) {
  RowLayer test{.rows = size.rows,
                .inputs = size.channels,
                .outputs = size.channels,
                .terms = size.rows + size.channels + size.hidden};
  layer.list_weights("", test.weights);
  test.step = [&](auto x, auto y, auto grad_y, auto grad_x) {
    layer.forward(x, y, &saved, workspace);
    layer.backward(saved, grad_y, grad_x, workspace);
  };
  return test;
}

struct Named {
  Activation activation;
  double (*function)(double);
};
// The finite differences of the check would meet the bend of relu; activation_test has it.
constexpr Named kActivations[] = {{Activation::silu, reference::silu},
                                  {Activation::gelu, reference::gelu_erf},
                                  {Activation::gelu_tanh, reference::gelu_tanh}};

class EveryFeedForward : public testing::TestWithParam<std::tuple<Named, bool, bool>> {};

TEST_P(EveryFeedForward, ValuesAndGradientsAreThoseOfTheReference) {
  const auto& [named, gated, bias] = GetParam();
  for (const Size& size : kSizes) {
    SCOPED_TRACE(std::to_string(size.rows) + " rows, " + std::to_string(size.channels));
    InitialValues initial(1);
    FeedForward layer({size.channels, size.hidden, named.activation, gated, bias}, initial);
    Workspace workspace;
    FeedForward::Saved saved;
    RowLayer test = row_layer(layer, workspace, saved, size);
    test.reference = [&, function = named.function, gated = gated, bias = bias](const Matrix& x,
                                                                                const std::vector<Values>& w) {
      std::size_t next = 0;
      const auto linear = [&](const Matrix& in, std::size_t outputs) {
        const Values& weight = w[next++];
        return reference::linear(in, weight, bias ? w[next++] : Values{}, outputs);
      };
      Matrix hidden = reference::each(linear(x, static_cast<std::size_t>(size.hidden)), function);
      if (gated) {
        const Matrix up = linear(x, static_cast<std::size_t>(size.hidden));
        for (std::size_t i = 0; i < up.values.size(); i++) hidden.values[i] *= up.values[i];
      }
      return linear(hidden, x.columns);
    };
    RowLayerCheck(std::move(test)).run();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryFeedForward,
                         testing::Combine(testing::ValuesIn(kActivations), testing::Bool(), testing::Bool()));

TEST(FeedForward, InferenceGivesTheSameBits) {
  for (const bool gated : {true, false}) {
    InitialValues initial(5);
    const FeedForward layer({.channels = 12, .hidden = 31, .gated = gated}, initial);
    Workspace workspace;
    FeedForward::Saved saved;
    Guarded<float, 2> x({19, 12}), y({19, 12}), inferred({19, 12});
    fill_random(x, 1);
    layer.forward(x.view, y.view, &saved, workspace);
    layer.forward(x.view, inferred.view, nullptr, workspace);
    EXPECT_TRUE(inferred.same_bits(y));
  }
}

TEST(FeedForward, NamesItsWeights) {
  InitialValues initial(5);
  FeedForward gated({.channels = 2, .hidden = 3}, initial);
  FeedForward plain({.channels = 2, .hidden = 3, .gated = false, .bias = true}, initial);
  NamedWeights weights;
  gated.list_weights("ffn", weights);
  plain.list_weights("mlp", weights);
  std::vector<std::string> names;
  for (const NamedWeight& named : weights) names.push_back(named.name);
  EXPECT_EQ(names, (std::vector<std::string>{"ffn.gate_proj.weight", "ffn.up_proj.weight", "ffn.down_proj.weight",
                                             "mlp.fc1.weight", "mlp.fc1.bias", "mlp.fc2.weight", "mlp.fc2.bias"}));
}

TEST(FeedForward, ErrorsNameTheLayer) {
  InitialValues initial(1);
  FeedForward layer({.channels = 4, .hidden = 6}, initial);
  Workspace workspace;
  FeedForward::Saved saved;
  Tensor<float, 2> x({2, 4}), wrong({2, 5}), few({1, 4}), y({2, 4});
  EXPECT_ERROR(layer.forward(wrong.view(), x.view(), nullptr, workspace), "[FeedForward]", "x: [2, 5]",
               "expected [N, 4]");
  EXPECT_ERROR(layer.forward(x.view(), few.view(), nullptr, workspace), "y: [1, 4]", "expected [2, 4]");
  EXPECT_ERROR(layer.backward(saved, x.view(), x.view(), workspace), "saved: of another layer or empty",
               "expected what forward saved");
  layer.forward(x.view(), y.view(), &saved, workspace);
  EXPECT_ERROR(layer.backward(saved, few.view(), x.view(), workspace), "grad_y: [1, 4]", "expected [2, 4]");
  EXPECT_ERROR(layer.backward(saved, x.view(), wrong.view(), workspace), "grad_x: [2, 5]", "expected [2, 4]");
  EXPECT_ERROR(FeedForward({.channels = 4}, initial), "[FeedForward]", "channels, hidden: 4, 0", "expected above 0");
}

}  // namespace
}  // namespace phasor
