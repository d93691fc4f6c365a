#include "phasor/core/simd_target.h"

#include <atomic>
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

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace phasor {

HWY_EXPORT(CompiledTarget);

namespace {

constexpr const char* kVariable = "PHASOR_SIMD_TARGET";

// The targets of this build that the CPU can run; found once, before any is forced.
const std::vector<std::int64_t>& runnable_targets() {
  static const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

#if defined(__x86_64__) && defined(__linux__)

// The CPU has tiles of bf16, and vectors of AVX-512 to fill them; the kernel saves them for this process if asked to.
bool permits_amx() {
  constexpr unsigned kVectors = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL in EBX
  constexpr unsigned kTiles = 1u << 22 | 1u << 24;                          // AMX-BF16, AMX-TILE in EDX
  constexpr int kRequestPermission = 0x1023, kTileData = 18;                // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & kVectors) == kVectors && (d & kTiles) == kTiles &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool permits_amx() { return false; }

#endif

// Beside Highway's targets, and better than all of them: kernels without a version for it take the best of those.
constexpr const char* kAmx = "AMX";

bool has_amx() {
  static const bool has = permits_amx();
  return has;
}

std::atomic<bool> without_amx = false;

void choose(std::int64_t targets) {
  without_amx = targets != 0;
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void force_target(std::string_view name, const char* origin) {
  if (name.empty() || (name == kAmx && has_amx())) return choose(0);
  std::string known = has_amx() ? kAmx : "";
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

bool uses_amx() {
  use_requested_simd_target();
  return has_amx() && !without_amx;
}

std::string simd_target() { return uses_amx() ? kAmx : PHASOR_DISPATCH(CompiledTarget)(); }

std::vector<std::string> simd_targets() {
  use_requested_simd_target();
  std::vector<std::string> names;
  if (has_amx()) names.emplace_back(kAmx);
  for (const std::int64_t target : runnable_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

void set_simd_target(std::string_view name) {
  use_requested_simd_target();
  force_target(name, "name");
}

}  // namespace phasor
#endif  // HWY_ONCE
