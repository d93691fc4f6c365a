#include "phasor/layers/feed_forward.h"

#include "activation.h"
#include "check_rows.h"

namespace phasor {
namespace {

constexpr const char* kLayer = "FeedForward";

FeedForwardConfig checked(const FeedForwardConfig& config) {
  PHASOR_CHECK(config.channels > 0 && config.hidden > 0, kLayer, "channels, hidden: ", config.channels, ", ",
               config.hidden, ", expected above 0");
  return config;
}

}  // namespace

FeedForward::FeedForward(const FeedForwardConfig& config, InitialValues& initial)
    : config_(checked(config)),
      in_(config.channels, config.hidden, config.bias, initial),
      up_(config.gated ? std::optional<Linear>(std::in_place, config.channels, config.hidden, config.bias, initial)
                       : std::nullopt),
      out_(config.hidden, config.channels, config.bias, initial) {}

void FeedForward::list_weights(std::string_view prefix, NamedWeights& weights) {
  in_.list_weights(weight_path(prefix, up_ ? "gate_proj" : "fc1"), weights);
  if (up_) up_->list_weights(weight_path(prefix, "up_proj"), weights);
  out_.list_weights(weight_path(prefix, up_ ? "down_proj" : "fc2"), weights);
}

void FeedForward::forward(TensorView<const float, 2> x, TensorView<float, 2> y, Saved* saved,
                          Workspace& workspace) const {
  detail::check_rows(kLayer, "x", x, detail::kAnyCount, config_.channels);
  detail::check_rows(kLayer, "y", y, x.shape[0], config_.channels);
  const Shape<2> shape{x.shape[0], config_.hidden};
  const Workspace::Scope scope(workspace);
  const TensorView<float, 2> act = workspace.take(shape);
  const TensorView<float, 2> hidden = saved ? shaped(saved->hidden, shape) : act;
  TensorView<float, 2> up;
  if (saved) saved->x = x;
  if (up_) {
    up = saved ? shaped(saved->up, shape) : workspace.take(shape);
    Linear::forward_together({{in_, x, hidden}, {*up_, x, up}});
  } else {
    in_.forward(x, hidden);
  }
  detail::activate(config_.activation, hidden.data, up.data, act.data, act.size());
  out_.forward(act, y);
}

void FeedForward::backward(const Saved& saved, TensorView<const float, 2> grad_y, TensorView<float, 2> grad_x,
                           Workspace& workspace) {
  const std::int64_t rows = saved.x.shape[0];
  PHASOR_CHECK(saved.x.shape[1] == config_.channels && saved.hidden.shape() == Shape<2>({rows, config_.hidden}), kLayer,
               "saved: of another layer or empty, expected what forward saved");
  detail::check_rows(kLayer, "grad_y", grad_y, rows, config_.channels);
  detail::check_rows(kLayer, "grad_x", grad_x, rows, config_.channels);
  const Shape<2>& shape = saved.hidden.shape();
  const Workspace::Scope scope(workspace);
  const TensorView<float, 2> act = workspace.take(shape);  // at first, its gradient
  const TensorView<float, 2> grad_hidden = workspace.take(shape);
  const TensorView<float, 2> grad_up = up_ ? workspace.take(shape) : TensorView<float, 2>();
  out_.backward_input(grad_y, act);
  detail::activate_backward(config_.activation,
                            {.x = saved.hidden.data(),
                             .up = up_ ? saved.up.data() : nullptr,
                             .grad_act_to_act = act.data,
                             .grad_x = grad_hidden.data,
                             .grad_up = grad_up.data},
                            act.size());
  out_.backward_weights(act, grad_y);
  in_.backward(saved.x, grad_hidden, grad_x);
  if (up_) up_->backward(saved.x, grad_up, grad_x, Into::add);
}

}  // namespace phasor
