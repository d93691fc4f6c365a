#include "phasor/layers/w2_feed_forward.h"

#include "as_rows.h"

namespace phasor {
namespace {

template <class T>
TensorView<T, 2> rows(const char* name, const TensorView<T, 3>& x) {
  return detail::as_rows("W2FeedForward", name, x);
}

}  // namespace

void W2FeedForward::list_weights(std::string_view prefix, NamedWeights& weights) {
  mu_.list_weights(weight_path(prefix, "mu"), weights);
  log_sigma_.list_weights(weight_path(prefix, "log_sigma"), weights);
}

void W2FeedForward::forward(const ConstStreams& x, const Streams& y, Saved* saved, Workspace& workspace) const {
  mu_.forward(rows("mu", x.mu), rows("y.mu", y.mu), saved ? &saved->mu : nullptr, workspace);
  log_sigma_.forward(rows("log_sigma", x.log_sigma), rows("y.log_sigma", y.log_sigma),
                     saved ? &saved->log_sigma : nullptr, workspace);
}

void W2FeedForward::backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x,
                             Workspace& workspace) {
  mu_.backward(saved.mu, rows("grad_y.mu", grad_y.mu), rows("grad_x.mu", grad_x.mu), workspace);
  log_sigma_.backward(saved.log_sigma, rows("grad_y.log_sigma", grad_y.log_sigma),
                      rows("grad_x.log_sigma", grad_x.log_sigma), workspace);
}

}  // namespace phasor
