// Two independent SwiGLU layers, one for each stream of Gaussian tokens; no weight is shared.
#pragma once

#include <cstdint>
#include <string_view>

#include "phasor/layers/feed_forward.h"
#include "phasor/layers/streams.h"

namespace phasor {

class W2FeedForward {
 public:
  struct Saved {
    FeedForward::Saved mu, log_sigma;
  };

  W2FeedForward(std::int64_t channels, std::int64_t hidden, InitialValues& initial)
      : mu_({channels, hidden}, initial), log_sigma_({channels, hidden}, initial) {}

  void list_weights(std::string_view prefix, NamedWeights& weights);  // mu, log_sigma

  // As in FeedForward, of [B, T, C].
  void forward(const ConstStreams& x, const Streams& y, Saved* saved, Workspace& workspace) const;
  void backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x, Workspace& workspace);

 private:
  FeedForward mu_, log_sigma_;
};

}  // namespace phasor
