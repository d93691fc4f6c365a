// What settings of a training must be. `name` gives what an error calls a setting (training/settings.h); it is asked
// only when there is one.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "phasor/core/check.h"
#include "phasor/training/optimizer.h"
#include "phasor/training/schedule.h"

namespace phasor::detail {

// The name of a setting in its own struct: "steps" of "schedule.steps".
inline std::string_view own_name(std::string_view path) { return path.substr(path.rfind('.') + 1); }

template <class Name>
void check_schedule(const char* function, const Schedule& schedule, const Name& name) {
  constexpr std::int64_t kMostSteps = 1'000'000'000;
  PHASOR_CHECK(schedule.steps >= 1 && schedule.steps <= kMostSteps, function, name("schedule.steps"), ": ",
               schedule.steps, ", expected 1 to ", kMostSteps);
  PHASOR_CHECK(schedule.peak > 0.0 && std::isfinite(schedule.peak), function, name("schedule.peak"), ": ",
               schedule.peak, ", expected more than 0 and finite");
  PHASOR_CHECK(schedule.warmup_steps >= 0 && schedule.warmup_steps <= schedule.steps, function,
               name("schedule.warmup_steps"), ": ", schedule.warmup_steps, ", expected 0 to ", name("schedule.steps"),
               " ", schedule.steps);
  PHASOR_CHECK(schedule.final_fraction >= 0.0 && schedule.final_fraction <= 1.0, function,
               name("schedule.final_fraction"), ": ", schedule.final_fraction, ", expected 0 to 1");
}

template <class Name>
void check_adamw(const char* function, const AdamWConfig& config, const Name& name) {
  PHASOR_CHECK(config.beta1 >= 0.0 && config.beta1 < 1.0, function, name("adamw.beta1"), ": ", config.beta1,
               ", expected 0 to less than 1");
  PHASOR_CHECK(config.beta2 >= 0.0 && config.beta2 < 1.0, function, name("adamw.beta2"), ": ", config.beta2,
               ", expected 0 to less than 1");
  PHASOR_CHECK(config.eps > 0.0 && std::isfinite(config.eps), function, name("adamw.eps"), ": ", config.eps,
               ", expected more than 0 and finite");
  PHASOR_CHECK(config.weight_decay >= 0.0 && std::isfinite(config.weight_decay), function, name("adamw.weight_decay"),
               ": ", config.weight_decay, ", expected 0 or more, and finite");
}

}  // namespace phasor::detail
