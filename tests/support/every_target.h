// Runs a check on every SIMD target that this build holds and this CPU can run, the scalar one included; or also on
// those that stand for instructions that it may not have.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phasor/core/simd_target.h"

namespace phasor {

template <class Check>
void on_targets(const std::vector<std::string>& targets, const Check& check) {
  for (const std::string& target : targets) {
    SCOPED_TRACE("SIMD target " + target);
    set_simd_target(target);
    ASSERT_EQ(simd_target(), target);
    check();
    if (::testing::Test::HasFatalFailure()) break;
  }
  set_simd_target("");
}

template <class Check>
void on_every_target(const Check& check) {
  on_targets(simd_targets(), check);
}

template <class Check>
void on_every_target_and_emulations(const Check& check) {
  std::vector<std::string> targets = simd_targets();
  targets.emplace_back("EMU_BF16");
  on_targets(targets, check);
}

// Whether the target in use multiplies bf16.
inline bool multiplies_bf16() {
  const std::string target = simd_target();
  return target == "AMX" || target == "AVX512_BF16" || target == "EMU_BF16";
}

}  // namespace phasor
