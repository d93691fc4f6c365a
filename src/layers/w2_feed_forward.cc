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
  mean_.list_weights(weight_path(prefix, "mu"), weights);
  log_variance_.list_weights(weight_path(prefix, "log_sigma"), weights);
}

void W2FeedForward::forward(const ConstStreams& x, const Streams& y, Saved* saved, Workspace& workspace) const {
  mean_.forward(rows("mean", x.mean), rows("y.mean", y.mean), saved ? &saved->mean : nullptr, workspace);
  log_variance_.forward(rows("log_variance", x.log_variance), rows("y.log_variance", y.log_variance),
                        saved ? &saved->log_variance : nullptr, workspace);
}

void W2FeedForward::backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x,
                             Workspace& workspace) {
  mean_.backward(saved.mean, rows("grad_y.mean", grad_y.mean), rows("grad_x.mean", grad_x.mean), workspace);
  log_variance_.backward(saved.log_variance, rows("grad_y.log_variance", grad_y.log_variance),
                         rows("grad_x.log_variance", grad_x.log_variance), workspace);
}

}  // namespace phasor
