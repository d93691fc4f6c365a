// W2AttentionLayer and both blocks have one interface, over streams: one check serves them.
#pragma once

#include <optional>

#include "layers/check_gradients.h"
#include "phasor/layers/block.h"

namespace phasor {

// Tensors of one or two streams.
struct StreamTensors {
  Tensor<float, 3> mu, log_sigma;

  StreamTensors() = default;
  StreamTensors(const Shape<3>& shape, bool gaussian) : mu(shape), log_sigma(gaussian ? shape : Shape<3>{}) {}

  static StreamTensors random(const Shape<3>& shape, bool gaussian, std::uint64_t seed) {
    StreamTensors result;
    result.mu = random_tensor<3>(shape, seed);
    if (gaussian) result.log_sigma = random_tensor<3>(shape, seed + 1000);
    return result;
  }
  static StreamTensors unwritten(const Shape<3>& shape, bool gaussian) {
    StreamTensors result;
    result.mu = phasor::unwritten<3>(shape);
    if (gaussian) result.log_sigma = phasor::unwritten<3>(shape);
    return result;
  }
  Streams view() { return {mu.view(), log_sigma.size() ? log_sigma.view() : TensorView<float, 3>()}; }
  ConstStreams view() const { return {mu.view(), log_sigma.size() ? log_sigma.view() : TensorView<const float, 3>()}; }
  Values values() const {
    Values result = values_of(mu);
    result.insert(result.end(), log_sigma.begin(), log_sigma.end());
    return result;
  }
};

inline reference::StreamRows stream_rows(const Values& values, std::int64_t channels, bool gaussian) {
  const std::size_t each = values.size() / (gaussian ? 2 : 1), columns = static_cast<std::size_t>(channels);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(each);
  reference::StreamRows rows{Matrix(each / columns, columns, Values(values.begin(), middle)), Matrix(0, 0)};
  if (gaussian) rows.log_sigma = Matrix(each / columns, columns, Values(middle, values.end()));
  return rows;
}

inline Values joined(const reference::StreamRows& rows) {
  Values result = rows.mu.values;
  result.insert(result.end(), rows.log_sigma.values.begin(), rows.log_sigma.values.end());
  return result;
}

struct StreamsCase {
  std::int64_t batch = 2, tokens = 7, channels = 24;
  double dropout = 0;
  double eps = 1e-6;
  PositionPlan plan{};
  AttentionOptions options{};
};

inline constexpr ModelShape kSmallShape{.heads = 3, .head_dim = 8, .model_dim = 24, .max_length = 50};
inline constexpr ModelShape kGroupedShape{.heads = 4, .head_dim = 6, .model_dim = 20, .max_length = 50};

template <class Layer, class Reference>
class StreamsCheck {
 public:
  // reference(weights, call, rows of x) gives the rows of y.
  StreamsCheck(Layer& layer, const AttentionHeads& heads, bool gaussian, StreamsCase c, Reference reference)
      : layer_(layer),
        weights_(layer),
        heads_(heads),
        gaussian_(gaussian),
        case_(std::move(c)),
        reference_(std::move(reference)) {}

  void run(std::int64_t terms) {
    const Shape<3> shape{case_.batch, case_.tokens, case_.channels};
    x_ = StreamTensors::random(shape, gaussian_, 1);
    grad_y_ = StreamTensors::random(shape, gaussian_, 2);
    step();
    std::vector<Values> at;
    for (const Leaf& leaf : leaves_) at.push_back(leaf.at);
    const Values expected = forward(at);
    const std::vector<Differences> slopes = slopes_of(
        leaves_, [&](const std::vector<Values>& changed) { return product(grad_y_.values(), forward(changed)); });
    on_every_target([&] {
      expect_near("y", step(), expected, tolerance(expected, terms));
      expect_gradients(leaves_, slopes, terms);
    });
  }

 private:
  Values step() {
    const Shape<3>& shape = x_.mu.shape();
    StreamTensors y = StreamTensors::unwritten(shape, gaussian_), grad_x = StreamTensors::unwritten(shape, gaussian_);
    layer_.forward(std::as_const(x_).view(), case_.plan, case_.options, y.view(), &saved_, workspace_);
    weights_.begin();
    PlanGradient grad_plan;
    layer_.backward(saved_, std::as_const(grad_y_).view(), grad_x.view(), &grad_plan, workspace_);
    leaves_ = {{"x", x_.values(), grad_x.values()}};
    if (case_.plan.bias)
      leaves_.push_back({"plan.bias", values_of(case_.plan.bias->table), values_of(*grad_plan.bias)});
    weights_.append_to(leaves_);
    return y.values();
  }

  Values forward(const std::vector<Values>& at) const {
    AttentionOptions options = case_.options;
    options.dropout = case_.dropout;
    reference::LayerCall call =
        reference::layer_call(heads_, options, case_.plan, case_.batch, case_.tokens, case_.tokens);
    call.eps = case_.eps;
    if (case_.plan.bias) call.attention.relative_bias->values = at[1];
    return joined(
        reference_(weights_.read(at, case_.plan.bias ? 2 : 1), call, stream_rows(at[0], case_.channels, gaussian_)));
  }

  Layer& layer_;
  LayerWeights weights_;
  AttentionHeads heads_;
  bool gaussian_;
  StreamsCase case_;
  Reference reference_;
  StreamTensors x_, grad_y_;
  typename Layer::Saved saved_;
  Workspace workspace_;
  std::vector<Leaf> leaves_;
};

}  // namespace phasor
