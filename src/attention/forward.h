#pragma once

#include "job.h"

namespace phasor::detail {

struct ForwardJob {
  const Job* job;
  const ForwardOutput* output;
};

}  // namespace phasor::detail
