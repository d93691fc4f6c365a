#include "phasor/layers/linear.h"

#include "check_rows.h"
#include "column_sums.h"
#include "matmul.h"

namespace phasor {
namespace {

constexpr const char* kLayer = "Linear";

}  // namespace

Linear::Linear(std::int64_t inputs, std::int64_t outputs, bool bias, InitialValues& initial) {
  PHASOR_CHECK(inputs > 0 && outputs > 0, kLayer, "inputs, outputs: ", inputs, ", ", outputs, ", expected above 0");
  weight_ = Weight({outputs, inputs});
  initial.fill(weight_.value(), inputs);
  if (!bias) return;
  bias_ = Weight({outputs});
  if (initial.init() == Init::fan_in) initial.fill(bias_.value(), inputs);
}

void Linear::list_weights(std::string_view prefix, NamedWeights& weights) {
  weights.push_back({weight_path(prefix, "weight"), &weight_});
  if (bias_.size() > 0) weights.push_back({weight_path(prefix, "bias"), &bias_});
}

void Linear::forward(TensorView<const float, 2> x, TensorView<float, 2> y) const {
  detail::check_rows(kLayer, "x", x, detail::kAnyCount, inputs());
  detail::check_rows(kLayer, "y", y, x.shape[0], outputs());
  detail::matmul(x, weight_.matrix().transposed(0, 1), y, Into::write, bias_.value());
}

void Linear::backward(TensorView<const float, 2> x, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                      Into into) {
  if (grad_x.data) backward_input(grad_y, grad_x, into);
  backward_weights(x, grad_y);
}

void Linear::backward_input(TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x, Into into) const {
  detail::check_rows(kLayer, "grad_y", grad_y, detail::kAnyCount, outputs());
  detail::check_rows(kLayer, "grad_x", grad_x, grad_y.shape[0], inputs());
  detail::matmul(grad_y, weight_.matrix(), grad_x, into);
}

void Linear::backward_weights(TensorView<const float, 2> x, TensorView<const float, 2> grad_y) {
  detail::check_rows(kLayer, "x", x, detail::kAnyCount, inputs());
  detail::check_rows(kLayer, "grad_y", grad_y, x.shape[0], outputs());
  detail::matmul(grad_y.transposed(0, 1), x, weight_.gradient_matrix(), Into::add);
  if (bias_.size() > 0) detail::add_column_sums(grad_y, bias_.gradient().data());
}

}  // namespace phasor
