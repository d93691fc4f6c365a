#include "phasor/layers/positions.h"

#include "elementwise.h"
#include "row_tasks.h"

namespace phasor {
namespace {

void check_x(const char* function, const char* name, const PositionPlan& plan, const TensorView<const float, 3>& x) {
  const Shape<3>& add = plan.add->shape();
  PHASOR_CHECK(x.shape[1] == add[1] && x.shape[2] == add[2] && (add[0] == 1 || add[0] == x.shape[0]), function, name,
               ": ", shape_text(x.shape),
               ", expected tokens and channels, and sequences unless 1, of plan.add: ", shape_text(add));
  PHASOR_CHECK(x.has_contiguous_rows(), function, name, ": last stride ", x.strides[2], ", expected 1");
}

}  // namespace

void add_positions(const PositionPlan& plan, TensorView<float, 3> x) {
  if (!plan.add) return;
  check_x("add_positions", "x", plan, x);
  const TensorView<const float, 3> table = plan.add->view();
  const auto [batch, length, width] = x.shape;
  const auto add = detail::row_adder();
  detail::for_each_rows(batch * length, width,
                        [&, length = length, width = width](std::int64_t first, std::int64_t count) {
                          for (std::int64_t n = first; n < first + count; n++) {
                            const std::int64_t b = n / length, t = n % length;
                            add(&table(table.shape[0] == 1 ? 0 : b, t, 0), &x(b, t, 0), width);
                          }
                        });
}

void add_positions_backward(const PositionPlan& plan, TensorView<const float, 3> grad_x, PlanGradient& gradient) {
  if (!plan.add) return;
  check_x("add_positions_backward", "grad_x", plan, grad_x);
  if (!gradient.add) gradient.add = Tensor<float, 3>(plan.add->shape());
  PHASOR_CHECK(gradient.add->shape() == plan.add->shape(), "add_positions_backward", "gradient: add of ",
               shape_text(gradient.add->shape()), ", expected ", shape_text(plan.add->shape()), " as the plan has");
  const TensorView<float, 3> table = gradient.add->view();
  const auto [batch, length, width] = grad_x.shape;
  const auto add = detail::row_adder();
  detail::for_each_rows(length, batch * width,
                        [&, batch = batch, width = width](std::int64_t first, std::int64_t count) {
                          for (std::int64_t t = first; t < first + count; t++)
                            for (std::int64_t b = 0; b < batch; b++)
                              add(&grad_x(b, t, 0), &table(table.shape[0] == 1 ? 0 : b, t, 0), width);
                        });
}

}  // namespace phasor
