#include "phasor/core/simd_target.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "support/every_target.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

// Run by ctest once for every target name, with PHASOR_SIMD_TARGET set: a kernel must say that it is that one.
TEST(SimdTarget, EnvironmentVariableTakesEffect) {
  const char* requested = std::getenv("PHASOR_SIMD_TARGET");
  if (requested == nullptr) {
    EXPECT_EQ(simd_target(), simd_targets().front());
    return;
  }
  try {
    EXPECT_EQ(simd_target(), requested);
  } catch (const std::invalid_argument& error) {  // this CPU cannot run it: the error says so
    EXPECT_NE(std::string(error.what()).find("expected one of"), std::string::npos);
    unsetenv("PHASOR_SIMD_TARGET");
#if defined(__x86_64__)
    EXPECT_FALSE(std::string_view(requested) == "AVX2" && __builtin_cpu_supports("avx2") &&
                 __builtin_cpu_supports("fma"));
#if !defined(HWY_COMPILE_ONLY_STATIC)  // PHASOR_ONE_TARGET
    EXPECT_FALSE(std::string_view(requested) == "SSE4" && __builtin_cpu_supports("sse4.2"));
#endif
#endif
    const std::vector<std::string> targets = simd_targets();
    EXPECT_EQ(std::count(targets.begin(), targets.end(), requested), 0);
  }
}

TEST(SimdTarget, EveryTargetCanBeForced) {
  std::size_t count = 0;
  on_every_target([&] { count++; });
  EXPECT_EQ(count, simd_targets().size());
  EXPECT_EQ(simd_target(), simd_targets().front());
}

#if !defined(HWY_COMPILE_ONLY_STATIC)
TEST(SimdTarget, ThePlainTargetIsAlwaysThere) {
  // The baseline of the architecture: which one, Highway's version and the compiler decide.
  const std::set<std::string> plain{"SCALAR", "EMU128", "SSE2", "NEON"};
  const std::vector<std::string> targets = simd_targets();
  EXPECT_TRUE(std::ranges::any_of(targets, [&](const std::string& name) { return plain.contains(name); }));
}
#endif

TEST(SimdTarget, UnknownNameIsAnErrorThatListsTheKnown) {
  EXPECT_ERROR(set_simd_target("AVX9"), "\"AVX9\"", "expected one of", simd_targets().front());
  EXPECT_EQ(simd_target(), simd_targets().front());
}

}  // namespace
}  // namespace phasor
