#include "phasor/training/schedule.h"

#include <cmath>
#include <numbers>

#include "phasor/core/check.h"

namespace phasor {

double learning_rate(const Schedule& schedule, std::int64_t step) {
  constexpr const char* kName = "learning_rate";
  PHASOR_CHECK(schedule.peak > 0.0 && std::isfinite(schedule.peak), kName, "peak: ", schedule.peak,
               ", expected more than 0");
  PHASOR_CHECK(schedule.warmup_steps >= 0 && schedule.warmup_steps <= schedule.steps, kName,
               "warmup_steps: ", schedule.warmup_steps, ", expected 0 to steps ", schedule.steps);
  PHASOR_CHECK(schedule.final_fraction >= 0.0 && schedule.final_fraction <= 1.0, kName,
               "final_fraction: ", schedule.final_fraction, ", expected 0 to 1");
  PHASOR_CHECK(step >= 0 && step < schedule.steps, kName, "step: ", step, ", expected 0 to ", schedule.steps - 1);
  if (step < schedule.warmup_steps)
    return schedule.peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  const double done =
      static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(schedule.steps - schedule.warmup_steps);
  const double falling = (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
  return schedule.peak * (schedule.final_fraction + (1.0 - schedule.final_fraction) * falling);
}

}  // namespace phasor
