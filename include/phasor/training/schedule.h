// The learning rate of each step: it rises for some steps, then falls along half a cosine (Loshchilov and Hutter,
// "SGDR", arXiv 1608.03983).
#pragma once

#include <cstdint>

namespace phasor {

struct Schedule {
  double peak = 1e-3;
  std::int64_t warmup_steps = 0;
  std::int64_t steps = 0;       // of the whole training
  double final_fraction = 0.1;  // of the peak, after the last step
};

// Of step 0 .. steps - 1:
//   step < warmup:  peak (step + 1) / warmup
//   else:           peak (final + (1 - final) (1 + cos(pi x)) / 2),  x = (step - warmup) / (steps - warmup)
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace phasor
