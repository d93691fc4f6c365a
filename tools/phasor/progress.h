// How a training goes: a bar that is drawn over and over on a terminal, else a line now and then. On standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "phasor/training/settings.h"

namespace phasor::tool {

class Progress {
 public:
  Progress(std::string title, std::int64_t tokens_per_step, std::int64_t steps_done);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const TrainingState& state);

 private:
  double tokens_per_second() const;  // since the beginning
  using Clock = std::chrono::steady_clock;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  std::string line(const TrainingState& state) const;

  std::string title_;
  std::int64_t tokens_per_step_, first_step_, steps_done_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point begin_, last_drawn_;
};

}  // namespace phasor::tool
