#include "phasor/layers/feed_forward.h"

#include "layers/check_layer.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

struct Size {
  std::int64_t rows, channels, hidden;
};
constexpr Size kSizes[] = {{1, 1, 1}, {17, 81, 17}, {33, 17, 197}, {81, 20, 33}};

template <class Layer>
RowLayer row_layer(Layer& layer, Workspace& workspace, typename Layer::Saved& saved, const Size& size) {
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

TEST(SwiGlu, ValuesAndGradientsAreThoseOfTheReference) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(std::to_string(size.rows) + " rows, " + std::to_string(size.channels));
    InitialValues initial(1);
    SwiGlu layer(size.channels, size.hidden, initial);
    Workspace workspace;
    SwiGlu::Saved saved;
    RowLayer test = row_layer(layer, workspace, saved, size);
    test.reference = [](const Matrix& x, const std::vector<Values>& w) {
      return reference::swiglu(x, w[0], w[1], w[2]);
    };
    RowLayerCheck(std::move(test)).run();
  }
}

TEST(GeluFeedForward, ValuesAndGradientsAreThoseOfTheReference) {
  for (const Gelu gelu : {Gelu::erf, Gelu::tanh})
    for (const Size& size : kSizes) {
      SCOPED_TRACE(std::to_string(size.rows) + " rows, " + std::to_string(size.channels));
      InitialValues initial(1);
      GeluFeedForward layer(size.channels, size.hidden, initial, gelu);
      Workspace workspace;
      GeluFeedForward::Saved saved;
      RowLayer test = row_layer(layer, workspace, saved, size);
      test.reference = [&](const Matrix& x, const std::vector<Values>& w) {
        const Matrix hidden = reference::linear(x, w[0], w[1], static_cast<std::size_t>(size.hidden));
        return reference::linear(
            reference::each(hidden, gelu == Gelu::erf ? reference::gelu_erf : reference::gelu_tanh), w[2], w[3],
            x.columns);
      };
      RowLayerCheck(std::move(test)).run();
    }
}

template <class Layer>
void expect_inference_is_forward(const Layer& layer) {
  Workspace workspace;
  typename Layer::Saved saved;
  Guarded<float, 2> x({19, 12}), y({19, 12}), inferred({19, 12});
  fill_random(x, 1);
  layer.forward(x.view, y.view, &saved, workspace);
  layer.forward(x.view, inferred.view, nullptr, workspace);
  EXPECT_TRUE(inferred.same_bits(y));
}

TEST(FeedForward, InferenceGivesTheSameBits) {
  InitialValues initial(5);
  expect_inference_is_forward(SwiGlu(12, 31, initial));
  expect_inference_is_forward(GeluFeedForward(12, 31, initial));
}

TEST(FeedForward, NamesItsWeights) {
  InitialValues initial(5);
  SwiGlu swiglu(2, 3, initial);
  GeluFeedForward gelu(2, 3, initial);
  NamedWeights weights;
  swiglu.list_weights("ffn", weights);
  gelu.list_weights("mlp", weights);
  std::vector<std::string> names;
  for (const NamedWeight& named : weights) names.push_back(named.name);
  EXPECT_EQ(names, (std::vector<std::string>{"ffn.gate_proj.weight", "ffn.up_proj.weight", "ffn.down_proj.weight",
                                             "mlp.fc1.weight", "mlp.fc1.bias", "mlp.fc2.weight", "mlp.fc2.bias"}));
}

TEST(FeedForward, ErrorsNameTheLayer) {
  InitialValues initial(1);
  SwiGlu swiglu(4, 6, initial);
  GeluFeedForward gelu(4, 6, initial);
  Workspace workspace;
  SwiGlu::Saved swiglu_saved;
  GeluFeedForward::Saved gelu_saved;
  Tensor<float, 2> x({2, 4}), wrong({2, 5}), few({1, 4});
  EXPECT_ERROR(swiglu.forward(wrong.view(), x.view(), nullptr, workspace), "[SwiGlu]", "x: [2, 5]", "expected [N, 4]");
  EXPECT_ERROR(gelu.forward(x.view(), few.view(), nullptr, workspace), "[GeluFeedForward]", "y: [1, 4]",
               "expected [2, 4]");
  EXPECT_ERROR(swiglu.backward(swiglu_saved, x.view(), x.view(), workspace), "[SwiGlu]",
               "saved: of another layer or empty", "expected what forward saved");
  EXPECT_ERROR(gelu.backward(gelu_saved, x.view(), x.view(), workspace), "[GeluFeedForward]",
               "saved: of another layer or empty");
  Tensor<float, 2> y({2, 4});
  gelu.forward(x.view(), y.view(), &gelu_saved, workspace);
  EXPECT_ERROR(gelu.backward(gelu_saved, few.view(), x.view(), workspace), "[GeluFeedForward]", "grad_y: [1, 4]",
               "expected [2, 4]");
  EXPECT_ERROR(gelu.backward(gelu_saved, x.view(), wrong.view(), workspace), "[GeluFeedForward]", "grad_x: [2, 5]",
               "expected [2, 4]");
  EXPECT_ERROR(SwiGlu(4, 0, initial), "[SwiGlu]", "channels, hidden: 4, 0", "expected above 0");
}

}  // namespace
}  // namespace phasor
