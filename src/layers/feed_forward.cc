#include "phasor/layers/feed_forward.h"

#include "activation.h"
#include "check_rows.h"

namespace phasor {
namespace {

constexpr const char *kSwiGlu = "SwiGlu", *kGelu = "GeluFeedForward";

void check_sizes(const char* layer, std::int64_t channels, std::int64_t hidden) {
  PHASOR_CHECK(channels > 0 && hidden > 0, layer, "channels, hidden: ", channels, ", ", hidden, ", expected above 0");
}

void check_forward(const char* layer, const TensorView<const float, 2>& x, const TensorView<float, 2>& y,
                   std::int64_t channels) {
  detail::check_rows(layer, "x", x, detail::kAnyCount, channels);
  detail::check_rows(layer, "y", y, x.shape[0], channels);
}

// `made` is the result of forward that was saved together with x.
void check_backward(const char* layer, const TensorView<const float, 2>& x, const Shape<2>& made,
                    const TensorView<const float, 2>& grad_y, const TensorView<float, 2>& grad_x, std::int64_t channels,
                    std::int64_t hidden) {
  PHASOR_CHECK(x.shape[1] == channels && made == Shape<2>({x.shape[0], hidden}), layer,
               "saved: of another layer or empty, expected what forward saved");
  detail::check_rows(layer, "grad_y", grad_y, x.shape[0], channels);
  detail::check_rows(layer, "grad_x", grad_x, x.shape[0], channels);
}

}  // namespace

SwiGlu::SwiGlu(std::int64_t channels, std::int64_t hidden, InitialValues& initial)
    : gate_proj_((check_sizes(kSwiGlu, channels, hidden), channels), hidden, false, initial),
      up_proj_(channels, hidden, false, initial),
      down_proj_(hidden, channels, false, initial) {}

void SwiGlu::list_weights(std::string_view prefix, NamedWeights& weights) {
  gate_proj_.list_weights(weight_path(prefix, "gate_proj"), weights);
  up_proj_.list_weights(weight_path(prefix, "up_proj"), weights);
  down_proj_.list_weights(weight_path(prefix, "down_proj"), weights);
}

void SwiGlu::forward(TensorView<const float, 2> x, TensorView<float, 2> y, Saved* saved, Workspace& workspace) const {
  check_forward(kSwiGlu, x, y, channels());
  const Shape<2> shape{x.shape[0], hidden()};
  const Workspace::Scope scope(workspace);
  const TensorView<float, 2> act = workspace.take(shape);
  const TensorView<float, 2> gate = saved ? shaped(saved->gate, shape) : act;
  const TensorView<float, 2> up = saved ? shaped(saved->up, shape) : workspace.take(shape);
  if (saved) saved->x = x;
  Linear::forward_together({{gate_proj_, x, gate}, {up_proj_, x, up}});
  detail::swiglu(gate.data, up.data, act.data, act.size());
  down_proj_.forward(act, y);
}

void SwiGlu::backward(const Saved& saved, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                      Workspace& workspace) {
  check_backward(kSwiGlu, saved.x, saved.gate.shape(), grad_y, grad_x, channels(), hidden());
  const Shape<2>& shape = saved.gate.shape();
  const Workspace::Scope scope(workspace);
  const TensorView<float, 2> act = workspace.take(shape);  // at first, its gradient
  const TensorView<float, 2> grad_gate = workspace.take(shape), grad_up = workspace.take(shape);
  down_proj_.backward_input(grad_y, act);
  detail::swiglu_backward({.gate = saved.gate.data(),
                           .up = saved.up.data(),
                           .grad_act_to_act = act.data,
                           .grad_gate = grad_gate.data,
                           .grad_up = grad_up.data},
                          act.size());
  down_proj_.backward_weights(act, grad_y);
  gate_proj_.backward(saved.x, grad_gate, grad_x);
  up_proj_.backward(saved.x, grad_up, grad_x, Into::add);
}

GeluFeedForward::GeluFeedForward(std::int64_t channels, std::int64_t hidden, InitialValues& initial, Gelu gelu)
    : fc1_((check_sizes(kGelu, channels, hidden), channels), hidden, true, initial),
      fc2_(hidden, channels, true, initial),
      gelu_(gelu) {}

void GeluFeedForward::list_weights(std::string_view prefix, NamedWeights& weights) {
  fc1_.list_weights(weight_path(prefix, "fc1"), weights);
  fc2_.list_weights(weight_path(prefix, "fc2"), weights);
}

void GeluFeedForward::forward(TensorView<const float, 2> x, TensorView<float, 2> y, Saved* saved,
                              Workspace& workspace) const {
  check_forward(kGelu, x, y, channels());
  const Shape<2> shape{x.shape[0], hidden()};
  const Workspace::Scope scope(workspace);
  const TensorView<float, 2> act = workspace.take(shape);
  const TensorView<float, 2> before = saved ? shaped(saved->hidden, shape) : act;
  if (saved) saved->x = x;
  fc1_.forward(x, before);
  detail::gelu(gelu_, before.data, act.data, act.size());
  fc2_.forward(act, y);
}

void GeluFeedForward::backward(const Saved& saved, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                               Workspace& workspace) {
  check_backward(kGelu, saved.x, saved.hidden.shape(), grad_y, grad_x, channels(), hidden());
  const Shape<2>& shape = saved.hidden.shape();
  const Workspace::Scope scope(workspace);
  const TensorView<float, 2> act = workspace.take(shape), grad_hidden = workspace.take(shape);
  fc2_.backward_input(grad_y, act);
  detail::gelu_backward(gelu_, {.x = saved.hidden.data(), .grad_act_to_act = act.data, .grad_x = grad_hidden.data},
                        act.size());
  fc2_.backward_weights(act, grad_y);
  fc1_.backward(saved.x, grad_hidden, grad_x);
}

}  // namespace phasor
