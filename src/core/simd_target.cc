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

// Bits of registers of CPUID, leaf 7.
[[maybe_unused]] constexpr unsigned kVectors = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL in EBX
[[maybe_unused]] constexpr unsigned kTiles = 1u << 22 | 1u << 24;                          // AMX-BF16, AMX-TILE in EDX
[[maybe_unused]] constexpr unsigned kBf16 = 1u << 5;                                       // in EAX of subleaf 1

#if defined(__x86_64__) && defined(__linux__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

// All zero where the CPU lacks the leaf.
Registers cpuid_7(unsigned subleaf) {
  Registers r;
  __get_cpuid_count(7, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

// The CPU has tiles of bf16, and vectors of AVX-512 to fill them; the kernel saves them for this process if asked to.
bool permits_amx() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  const Registers r = cpuid_7(0);
  return (r.b & kVectors) == kVectors && (r.d & kTiles) == kTiles &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// The best vectors of this build are those of AVX-512, or newer.
bool has_avx512_vectors() { return runnable_targets().front() <= HWY_AVX3; }

bool permits_avx512_bf16() {
  return has_avx512_vectors() && (cpuid_7(0).b & kVectors) == kVectors && (cpuid_7(1).a & kBf16) != 0;
}

// Intel's CPUs up to Emerald Rapids multiply twice as many floats in the same time as pairs by vdpbf16ps (measured:
// 158 and 79 GFLOP/s of a core); AMD's multiply half as many.
bool multiplies_pairs_slowly() {
  unsigned most = 0;
  Registers vendor;
  return __get_cpuid(0, &most, &vendor.b, &vendor.c, &vendor.d) && vendor.b == signature_INTEL_ebx;
}

#else

bool permits_amx() { return false; }
bool permits_avx512_bf16() { return false; }
bool multiplies_pairs_slowly() { return false; }
bool has_avx512_vectors() { return false; }

#endif

bool has_amx() {
  static const bool has = permits_amx();
  return has;
}

bool has_avx512_bf16() {
  static const bool has = permits_avx512_bf16();
  return has;
}

bool has_fast_avx512_bf16() { return has_avx512_bf16() && !multiplies_pairs_slowly(); }

// Targets beside Highway's, best first. Kernels without a version for them take Highway's best.
struct Extension {
  const char* name;
  PairInstructions pairs;
  bool (*is_here)();
  bool (*gains)();  // is here and faster than Highway's best
  bool is_listed = true;
};
constexpr bool (*kNever)() = [] { return false; };
constexpr bool (*kAlways)() = [] { return true; };
constexpr Extension kExtensions[] = {
    {"AMX", PairInstructions::amx, has_amx, has_amx},
    {"AVX512_BF16", PairInstructions::avx512_bf16, has_avx512_bf16, has_fast_avx512_bf16},
    {"EMU_BF16", PairInstructions::plain, kAlways, kNever, false}};
constexpr Extension kNoExtension = {"", PairInstructions::none, kNever, kNever, false};

std::atomic<const Extension*> extension = nullptr;  // nullptr: not chosen yet

const Extension& best_extension() {
  for (const Extension& e : kExtensions)
    if (e.gains()) return e;
  return kNoExtension;
}

// targets: of Highway; 0: all.
void choose(std::int64_t targets, const Extension& chosen) {
  extension = &chosen;
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void force_target(std::string_view name, const char* origin) {
  if (name.empty()) return choose(0, best_extension());
  std::string known;
  const auto is = [&](const char* other, bool is_listed) {
    if (is_listed) known += (known.empty() ? "" : ", ") + std::string(other);
    return name == other;
  };
  for (const Extension& e : kExtensions)
    if (e.is_here() && is(e.name, e.is_listed)) return choose(0, e);
  for (const std::int64_t target : runnable_targets())
    if (is(hwy::TargetName(target), true)) return choose(target, kNoExtension);
  fail("simd_target", origin, ": \"", name, "\", expected one of ", known);
}

const Extension& extension_in_use() {
  use_requested_simd_target();
  return *extension.load(std::memory_order_relaxed);
}

}  // namespace

void use_requested_simd_target() {
  static const bool once = [] {
    runnable_targets();
    const char* name = std::getenv(kVariable);
    if (name != nullptr)
      force_target(name, kVariable);
    else
      extension = &best_extension();
    return true;
  }();
  (void)once;
}

bool uses_amx() { return extension_in_use().pairs == PairInstructions::amx; }

// Without vectors of AVX-512 in the build, tiles have nothing that fills them for attention.
PairInstructions pair_instructions() {
  const PairInstructions pairs = extension_in_use().pairs;
  return pairs == PairInstructions::amx && !has_avx512_vectors() ? PairInstructions::none : pairs;
}

std::string simd_target() {
  const Extension& e = extension_in_use();
  return &e == &kNoExtension ? PHASOR_DISPATCH(CompiledTarget)() : e.name;
}

std::vector<std::string> simd_targets() {
  use_requested_simd_target();
  std::vector<std::string> names;
  const auto list_extensions = [&](bool gain) {
    for (const Extension& e : kExtensions)
      if (e.is_listed && e.is_here() && e.gains() == gain) names.emplace_back(e.name);
  };
  list_extensions(true);
  for (const std::int64_t target : runnable_targets()) names.emplace_back(hwy::TargetName(target));
  list_extensions(false);
  return names;
}

void set_simd_target(std::string_view name) {
  use_requested_simd_target();
  force_target(name, "name");
}

}  // namespace phasor
#endif  // HWY_ONCE
