#include "phasor/layers/norm.h"

#include "layers/check_layer.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

template <class Norm>
RowLayer row_layer(Norm& norm, Workspace& workspace, typename Norm::Saved& saved, std::int64_t rows) {
  RowLayer test{.rows = rows,
                .inputs = norm.channels(),
                .outputs = norm.channels(),
                .terms = rows + norm.channels(),
                .term_of_grad = 1};
  norm.list_weights("", test.weights);
  test.step = [&](auto x, auto y, auto grad_y, auto grad_x) {
    norm.forward(x, y, &saved);
    norm.backward(saved, grad_y, grad_x, workspace);
  };
  return test;
}

const std::vector<std::pair<std::int64_t, std::int64_t>> kSizes{{1, 1}, {3, 17}, {81, 64}, {197, 81}, {40, 197}};

TEST(RmsNorm, ValuesAndGradientsAreThoseOfTheReference) {
  for (const auto& [rows, channels] : kSizes) {
    SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(channels));
    RmsNorm norm(channels, 1e-3f);
    Workspace workspace;
    RmsNorm::Saved saved;
    RowLayer test = row_layer(norm, workspace, saved, rows);
    test.reference = [](const Matrix& x, const std::vector<Values>& weights) {
      return reference::rms_norm(x, weights[0], 1e-3f);
    };
    RowLayerCheck(std::move(test)).run();
  }
}

TEST(LayerNorm, ValuesAndGradientsAreThoseOfTheReference) {
  for (const auto& [rows, channels] : kSizes) {
    SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(channels));
    LayerNorm norm(channels, 1e-3f);
    Workspace workspace;
    LayerNorm::Saved saved;
    RowLayer test = row_layer(norm, workspace, saved, rows);
    test.reference = [](const Matrix& x, const std::vector<Values>& weights) {
      return reference::layer_norm(x, weights[0], weights[1], 1e-3f);
    };
    RowLayerCheck(std::move(test)).run();
  }
}

// Many rows: several tasks sum gradients of the weight. The result is the sum over parts given one by one.
TEST(RmsNorm, ManyRowsGiveTheSumOfTheirGradients) {
  const std::int64_t rows = 3000, channels = 40;
  RmsNorm whole(channels), parts(channels);
  Workspace workspace;
  RmsNorm::Saved saved;
  Guarded<float, 2> x({rows, channels}), grad_y({rows, channels}), y({rows, channels}), grad_x({rows, channels});
  fill_random(x, 1);
  fill_random(grad_y, 2);
  whole.forward(x.view, y.view, &saved);
  whole.backward(saved, grad_y.view, grad_x.view, workspace);
  for (std::int64_t n = 0; n < rows; n += 100) {
    parts.forward(x.view.slice(0, n, 100), y.view.slice(0, n, 100), &saved);
    parts.backward(saved, grad_y.view.slice(0, n, 100), grad_x.view.slice(0, n, 100), workspace);
  }
  const Values expected = values_of(parts.weight().gradient());
  expect_near("gradient", values_of(whole.weight().gradient()), expected, tolerance(expected, 64));
}

TEST(RmsNorm, GradientMayBeAddedOrTakeThePlaceOfThatOfY) {
  RmsNorm norm(33);
  Workspace workspace;
  RmsNorm::Saved saved;
  Guarded<float, 2> x({7, 33}), y({7, 33}), grad_y({7, 33}), written({7, 33}), added({7, 33});
  fill_random(x, 1);
  fill_random(grad_y, 2);
  fill_random(added, 3);
  const Values before = values_of(added);
  norm.forward(x.view, y.view, &saved);
  norm.backward(saved, grad_y.view, written.view, workspace);
  norm.backward(saved, grad_y.view, added.view, workspace, Into::add);
  norm.backward(saved, grad_y.view, grad_y.view, workspace);
  EXPECT_EQ(values_of(grad_y), values_of(written));
  Values expected = values_of(written);
  for (std::size_t i = 0; i < expected.size(); i++) expected[i] += before[i];
  expect_near("grad_x", values_of(added), expected, tolerance(expected, 0));
  norm.forward(x.view, x.view);  // in place
  EXPECT_EQ(values_of(x), values_of(y));
}

// A weight of 1 + 2^-8 is enough: x / rms rounded to bf16 first, or not. The scalar steps are the specification.
template <class T>
void check_rounding(NormRounding rounding) {
  const std::int64_t channels = 83;
  RmsNorm norm(channels, 1e-6f, rounding);
  Philox(3).fill_normal(norm.weight().value(), 1.0f, 0.3f);
  Guarded<T, 2> x({5, channels}, {.gap = 1}), y({5, channels}, {.gap = 2});
  std::uint64_t i = 0;
  x.for_each([&](T& element) { element = T(Philox(9).normal(i++)); });
  on_every_target([&] {
    norm.forward(x.view, y.view);
    y.expect_guards("y");
    for (std::int64_t n = 0; n < 5; n++) {
      double squares = 0;
      for (std::int64_t c = 0; c < channels; c++) squares += std::pow(static_cast<double>(float(x.view(n, c))), 2);
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(channels) + 1e-6);
      for (std::int64_t c = 0; c < channels; c++) {
        const double weight = static_cast<double>(norm.weight().value()[static_cast<std::size_t>(c)]);
        const double z = static_cast<double>(float(x.view(n, c))) * inverse;
        // A float that is rounded to 16 bits may fall to the other side of a tie: both neighbours are right then.
        const auto result = [&](double normalised) {
          if (rounding == NormRounding::before_weight)
            normalised = static_cast<double>(float(T(static_cast<float>(normalised))));
          return std::pair(float(T(static_cast<float>(normalised * weight * (1 - 1e-6)))),
                           float(T(static_cast<float>(normalised * weight * (1 + 1e-6)))));
        };
        const auto [a, b] = result(z * (1 - 1e-6));
        const auto [e, f] = result(z * (1 + 1e-6));
        const float found = float(y.view(n, c));
        EXPECT_TRUE(found == a || found == b || found == e || found == f) << found << ", expected " << a;
      }
    }
  });
}

TEST(RmsNorm, RoundsTo16BitsBeforeOrAfterTheWeight) {
  for (const NormRounding rounding : {NormRounding::before_weight, NormRounding::after_weight}) {
    check_rounding<bf16>(rounding);
    check_rounding<f16>(rounding);
  }
}

TEST(RmsNorm, TheTwoOrdersOfRoundingDiffer) {
  const std::int64_t channels = 64;
  RmsNorm before(channels), after(channels, 1e-6f, NormRounding::after_weight);
  for (RmsNorm* norm : {&before, &after}) Philox(3).fill_normal(norm->weight().value(), 1.0f, 0.3f);
  Tensor<bf16, 2> x({8, channels}), a(x.shape()), b(x.shape());
  for (std::int64_t i = 0; i < x.size(); i++) x.data()[i] = bf16(Philox(4).normal(static_cast<std::uint64_t>(i)));
  before.forward(std::as_const(x).view(), a.view());
  after.forward(std::as_const(x).view(), b.view());
  int different = 0;
  for (std::int64_t i = 0; i < x.size(); i++) different += a.data()[i].bits != b.data()[i].bits;
  EXPECT_GT(different, 50);
}

TEST(Norm, ErrorsNameTheLayer) {
  RmsNorm rms(4);
  LayerNorm layer(4);
  Workspace workspace;
  NormSaved saved;
  Tensor<float, 2> x({2, 4}), wrong({2, 5}), few({1, 4});
  EXPECT_ERROR(rms.forward(wrong.view(), x.view()), "[RmsNorm]", "x: [2, 5]", "expected [N, 4]");
  EXPECT_ERROR(layer.forward(x.view(), few.view()), "[LayerNorm]", "y: [1, 4]", "expected [2, 4]");
  EXPECT_ERROR(rms.backward(saved, x.view(), x.view(), workspace), "[RmsNorm]", "saved: of another layer or empty");
  layer.forward(x.view(), x.view(), &saved);
  EXPECT_ERROR(layer.backward(saved, few.view(), x.view(), workspace), "[LayerNorm]", "grad_y: [1, 4]",
               "expected [2, 4]");
  EXPECT_ERROR(layer.backward(saved, x.view(), wrong.view(), workspace), "[LayerNorm]", "grad_x: [2, 5]",
               "expected [2, 4]");
  EXPECT_ERROR(RmsNorm(0), "[RmsNorm]", "channels: 0", "expected above 0");
  EXPECT_ERROR(LayerNorm(4, -1.0f), "[LayerNorm]", "eps: -1", "expected 0 or above");
}

}  // namespace
}  // namespace phasor
