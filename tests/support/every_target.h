// Runs a check on every SIMD target that this build holds and this CPU can run, the scalar one included.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "phasor/core/simd_target.h"

namespace phasor {

template <class Check>
void on_every_target(const Check& check) {
  for (const std::string& target : simd_targets()) {
    SCOPED_TRACE("SIMD target " + target);
    set_simd_target(target);
    ASSERT_EQ(simd_target(), target);
    check();
    if (::testing::Test::HasFatalFailure()) break;
  }
  set_simd_target("");
}

}  // namespace phasor
