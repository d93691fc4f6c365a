#include "phasor/core/simd_target.h"

#include <cstdlib>

#include "phasor/core/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_target.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

const char* CompiledTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd/dispatch.h"

namespace phasor {

HWY_EXPORT(CompiledTarget);

namespace {

constexpr const char* kVariable = "PHASOR_SIMD_TARGET";

// The targets of this build that the CPU can run; found once, before any is forced.
const std::vector<std::int64_t>& runnable_targets() {
  static const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

void choose(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void force_target(std::string_view name, const char* origin) {
  if (name.empty()) return choose(0);
  std::string known;
  for (const std::int64_t target : runnable_targets()) {
    if (name == hwy::TargetName(target)) return choose(target);
    known += (known.empty() ? "" : ", ") + std::string(hwy::TargetName(target));
  }
  fail("simd_target", origin, ": \"", name, "\", expected one of ", known);
}

}  // namespace

void use_requested_simd_target() {
  static const bool once = [] {
    runnable_targets();
    const char* name = std::getenv(kVariable);
    if (name != nullptr) force_target(name, kVariable);
    return true;
  }();
  (void)once;
}

std::string simd_target() { return PHASOR_DISPATCH(CompiledTarget)(); }

std::vector<std::string> simd_targets() {
  use_requested_simd_target();
  std::vector<std::string> names;
  for (const std::int64_t target : runnable_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

void set_simd_target(std::string_view name) {
  use_requested_simd_target();
  force_target(name, "name");
}

}  // namespace phasor
#endif  // HWY_ONCE
