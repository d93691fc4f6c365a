#include "phasor/layers/linear.h"

#include <algorithm>
#include <array>

#include "check_rows.h"
#include "column_sums.h"
#include "products/multiply.h"

namespace phasor {
namespace {

constexpr const char* kLayer = "Linear";

std::int64_t inputs_of(const Weight& weight) { return weight.shape()[1]; }
std::int64_t outputs_of(const Weight& weight) { return weight.shape()[0]; }

products::Operand values_of(const Weight& weight) {
  return weight.visit([](const auto& matrix) { return products::Operand(matrix); });
}

products::Product forward_product(const Weight& weight, std::span<const float> bias, TensorView<const float, 2> x,
                                  TensorView<float, 2> y) {
  detail::check_rows(kLayer, "x", x, detail::kAnyCount, inputs_of(weight));
  detail::check_rows(kLayer, "y", y, x.shape[0], outputs_of(weight));
  return {.a = x, .b = values_of(weight).transposed(), .c = y, .bias = bias};
}

void backward_input_with(const Weight& weight, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                         Into into) {
  detail::check_rows(kLayer, "grad_y", grad_y, detail::kAnyCount, outputs_of(weight));
  detail::check_rows(kLayer, "grad_x", grad_x, grad_y.shape[0], inputs_of(weight));
  products::multiply({.a = grad_y, .b = weight.matrix(), .c = grad_x, .accumulate = into == Into::add});
}

void backward_weight_with(Weight& weight, TensorView<const float, 2> x, TensorView<const float, 2> grad_y) {
  detail::check_rows(kLayer, "x", x, detail::kAnyCount, inputs_of(weight));
  detail::check_rows(kLayer, "grad_y", grad_y, x.shape[0], outputs_of(weight));
  products::multiply({.a = grad_y.transposed(0, 1), .b = x, .c = weight.gradient_matrix(), .accumulate = true});
}

}  // namespace

void linear_forward(const Weight& weight, TensorView<const float, 2> x, TensorView<float, 2> y,
                    std::span<const float> bias) {
  products::multiply(forward_product(weight, bias, x, y));
}

void linear_backward(Weight& weight, TensorView<const float, 2> x, TensorView<const float, 2> grad_y,
                     TensorView<float, 2> grad_x, Into into) {
  if (grad_x.data) backward_input_with(weight, grad_y, grad_x, into);
  backward_weight_with(weight, x, grad_y);
}

Linear::Linear(std::int64_t inputs, std::int64_t outputs, bool bias, InitialValues& initial) {
  PHASOR_CHECK(inputs > 0 && outputs > 0, kLayer, "inputs, outputs: ", inputs, ", ", outputs, ", expected above 0");
  weight_ = initial.weight("weight", {outputs, inputs}, inputs);
  if (!bias) return;
  bias_ = Weight("bias", {outputs});
  if (initial.init() == Init::fan_in) initial.fill(bias_.value(), inputs);
}

void Linear::list_weights(std::string_view prefix, NamedWeights& weights) {
  list_weight(prefix, weight_, weights);
  if (bias_.size() > 0) list_weight(prefix, bias_, weights);
}

void Linear::forward(TensorView<const float, 2> x, TensorView<float, 2> y) const { forward_together({{*this, x, y}}); }

void Linear::forward_together(std::initializer_list<Call> calls) {
  std::array<products::Product, 4> all;
  PHASOR_CHECK(calls.size() <= all.size(), kLayer, "calls: ", calls.size(), ", expected at most ", all.size());
  std::ranges::transform(calls, all.begin(), [](const Call& call) {
    return forward_product(call.layer.weight_, call.layer.bias_.value(), call.x, call.y);
  });
  products::multiply(std::span(all.data(), calls.size()));
}

void Linear::backward(TensorView<const float, 2> x, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                      Into into) {
  if (grad_x.data) backward_input(grad_y, grad_x, into);
  backward_weights(x, grad_y);
}

void Linear::backward_input(TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x, Into into) const {
  backward_input_with(weight_, grad_y, grad_x, into);
}

void Linear::backward_weights(TensorView<const float, 2> x, TensorView<const float, 2> grad_y) {
  backward_weight_with(weight_, x, grad_y);
  if (bias_.size() > 0) detail::add_column_sums(grad_y, bias_.gradient().data());
}

}  // namespace phasor
