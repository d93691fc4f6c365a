#include "phasor/training/schedule.h"

#include <cmath>
#include <numbers>

#include "check_settings.h"

namespace phasor {

double learning_rate(const Schedule& schedule, std::int64_t step) {
  constexpr const char* kName = "learning_rate";
  detail::check_schedule(kName, schedule, detail::own_name);
  PHASOR_CHECK(step >= 0 && step < schedule.steps, kName, "step: ", step, ", expected 0 to ", schedule.steps - 1);
  if (step < schedule.warmup_steps)
    return schedule.peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  const double done =
      static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(schedule.steps - schedule.warmup_steps);
  const double falling = (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
  return schedule.peak * (schedule.final_fraction + (1.0 - schedule.final_fraction) * falling);
}

}  // namespace phasor
